import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from twin import daemon
from twin.host import processes
from twin.host.paths import REPOSITORY, TwinPaths
from twin.providers.gcp.effects import gcs
from twin.providers.gcp.server import world_of
from twin.world.store import Record

NAME = "acme-inference-dev"
BUCKET = f"{NAME}-pulumi-state"
STATE = f".pulumi/stacks/gke-inference-bootstrap/{NAME}.json"


class Project:
    """The project of the stack `dev` on a twin of its own, prepared as a user does it."""

    def __init__(self, paths: TwinPaths):
        self.paths = paths

    def _arguments(self, *options: str) -> dict[str, Any]:
        program = str(Path(sys.executable).with_name("gke-inference"))
        return {
            "args": [program, "bootstrap", "--stack", "dev", *options],
            "cwd": REPOSITORY,
            "env": {**os.environ, "GKE_INFERENCE_TWIN_DIR": str(self.paths.root)},
            "text": True,
        }

    def run(self, *options: str, answer: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            **self._arguments(*options), input=answer, capture_output=True, timeout=900, check=False
        )

    def kill_after(self, lines: int, *options: str) -> None:
        """Start a run and kill it, with the engine, once it has reported that many changes."""
        process = subprocess.Popen(
            **self._arguments(*options), stdout=subprocess.PIPE, start_new_session=True
        )
        assert process.stdout is not None
        done = 0
        for line in process.stdout:
            done += line.startswith("done: ")
            if done == lines:
                os.killpg(process.pid, signal.SIGKILL)
                break
        process.stdout.close()
        process.wait()
        assert done == lines

    def records(self) -> list[Record]:
        return world_of(self.paths).store.all()

    def record(self, name: str) -> Record:
        (found,) = [record for record in self.records() if record.id.endswith(name)]
        return found

    def counts(self) -> dict[str, int]:
        """Return how many resources of each kind the project has."""
        return dict(Counter(record.type.rpartition(":")[2] for record in self.records()))

    def change(self, record: Record, **outputs: Any) -> None:
        """Change a resource behind the engine's back."""
        values = {**record.outputs, **outputs}
        world_of(self.paths).store.set(record.type, record.id, outputs=values)

    def objects(self) -> set[str]:
        return {str(each["name"]) for each in gcs.objects(self.paths, BUCKET)}

    def resources_in_bucket(self) -> int:
        """Return how many resources the state in the bucket has, the engine's own among them."""
        where = f"/storage/v1/b/{BUCKET}/o/{STATE.replace('/', '%2F')}?alt=media"
        status, body = gcs._request(self.paths, "GET", where)
        assert status == 200
        return len(json.loads(body)["checkpoint"]["latest"]["resources"])

    def local_state(self) -> bool:
        return (self.paths.root / "bootstrap" / NAME / "state").exists()


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    paths = TwinPaths(tmp_path_factory.mktemp("bootstrap") / "twin")
    yield Project(paths)
    daemon.shut_down(paths)
    assert processes.running(paths) == {}
