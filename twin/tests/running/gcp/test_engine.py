"""The gcp provider under the real Pulumi engine."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from twin import daemon
from twin.host import processes
from twin.host.paths import TwinPaths
from twin.providers.gcp.server import serve
from twin.pulumi.environment import pulumi_environment
from twin.pulumi.warm_hosts import WarmHosts
from twin.tests.tools import needed
from twin.toolchain import tool
from twin.world.capacity import World
from twin.world.store import Store

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(180)]
_PROGRAM = Path(__file__).with_name("program")


class Engine:
    """`pulumi` in a copy of the program, against a provider of its own."""

    def __init__(self, folder: Path, paths: TwinPaths, port: int, hosts: WarmHosts) -> None:
        self.paths = paths
        self._hosts = hosts
        self.folder = folder
        self.environment = {
            **os.environ,
            **pulumi_environment(paths, {"gcp": port, "kubernetes": port}),
        }
        self.run("stack", "init", "test")
        self.run("config", "set", "gcp:project", "acme")

    def start(
        self, *arguments: str, shape: str = "first", attached: str | None = None
    ) -> subprocess.Popen[str]:
        debugged = {} if attached is None else {"PULUMI_DEBUG_LANGUAGES": attached}
        return subprocess.Popen(
            [str(tool("pulumi")), *arguments, "--non-interactive"],
            cwd=self.folder,
            env={**self.environment, **debugged, "SHAPE": shape},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str, shape: str = "first", fails: bool = False) -> str:
        with ExitStack() as stack:
            attached = None
            if arguments[0] in ("preview", "up"):
                host = self._hosts.host({**self.environment, "SHAPE": shape})
                attached = f"python:{stack.enter_context(host)}"
            process = self.start(*arguments, shape=shape, attached=attached)
            output, _ = process.communicate(timeout=120)
        assert (process.returncode != 0) == fails, output
        return output

    def up(self, **more: Any) -> str:
        return self.run("up", "--yes", "--skip-preview", **more)

    def slow_down(self, speed: float) -> None:
        self.paths.settings_file.write_text(json.dumps({"speed": speed}))


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmHosts]:
    """Language hosts that have the SDKs loaded."""
    with closing(WarmHosts(tmp_path_factory.mktemp("hosts"), os.environ)) as found:
        yield found


@pytest.fixture
def engine(tmp_path: Path, hosts: WarmHosts) -> Iterator[Engine]:
    needed("pulumi", "fake-gcs-server")
    paths = TwinPaths(tmp_path / "twin")
    daemon.prepare(paths)
    before = dict(os.environ)
    os.environ.update(processes.process_environment(paths))
    shutil.copytree(_PROGRAM, tmp_path / "program")
    server, port = serve(paths)
    try:
        yield Engine(tmp_path / "program", paths, port, hosts)
    finally:
        server.stop(grace=None).wait()
        processes.stop(paths, *processes.running(paths))
        os.environ.clear()
        os.environ.update(before)


def test_a_program_comes_up_changes_refreshes_and_goes_without_a_trace(engine: Engine) -> None:
    assert "+ 8 to create" in engine.run("preview")
    assert "created" in engine.up()
    outputs = json.loads(engine.run("stack", "output", "--json"))
    assert outputs["email"] == "acme-nodes@acme.iam.gserviceaccount.com"
    assert outputs["address"].startswith("127.32.")
    assert "unchanged" in engine.run("up", "--yes", "--skip-preview", "--expect-no-changes")
    engine.run("refresh", "--yes", "--expect-no-changes")
    changed = engine.run("preview", "--diff", shape="second")
    assert '~ ipCidrRange: "10.0.0.0/20" => "10.0.0.0/19"' in changed
    assert "+-gcp:compute/address:Address: (replace)" in changed
    assert "1 to update" in changed
    engine.up(shape="second")
    engine.run("destroy", "--yes", "--skip-preview", shape="second")
    assert Store(engine.paths.cloud_db).all() == []
    assert list(engine.paths.gcs.iterdir()) == []


def test_an_input_google_would_refuse_fails_the_preview_and_changes_nothing(engine: Engine) -> None:
    output = engine.run("preview", shape="broken", fails=True)
    assert "bgp.asn: must be a private AS number" in output
    assert "Traceback" not in output
    assert Store(engine.paths.cloud_db).all() == []


def test_an_up_whose_engine_was_killed_is_finished_by_the_next(engine: Engine) -> None:
    engine.slow_down(5)  # a network takes 4 s
    process = engine.start("up", "--yes", "--skip-preview")
    store = Store(engine.paths.cloud_db)
    until = time.monotonic() + 60
    while not store.all() and time.monotonic() < until:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGKILL)  # and its language host
    process.communicate(timeout=30)
    assert any(record.status == "creating" for record in store.all())
    engine.slow_down(1000)
    engine.run("cancel", "--yes")
    assert "created" in engine.up()
    assert all(record.status == "ready" for record in store.all())
    engine.run("destroy", "--yes", "--skip-preview")
    assert store.all() == []


@pytest.mark.soak  # tests/platform/images/test_first_step.py creates these resources of prod
def test_what_delivers_images_comes_up_changes_from_audit_to_enforcing_and_goes(
    engine: Engine,
) -> None:
    repository = "projects/acme/locations/us-east5/connections/c/repositories/r"
    password = "projects/acme/secrets/hub/versions/1"
    given = World(build_repositories=(repository,), secret_versions=(password,))
    given.save(engine.paths.capacity_file)
    engine.up(shape="images-audit")
    made = Store(engine.paths.cloud_db).find("gcp:artifactregistry/repository:Repository")
    assert {each.name for each in made} == {"engines", "upstream-docker-io", "upstream-ghcr-io"}
    outputs = json.loads(engine.run("stack", "output", "--json"))
    assert outputs["repository"] == "us-east5-docker.pkg.dev/acme/engines"
    assert outputs["keyVersion"].endswith("/cryptoKeyVersions/1")
    assert outputs["keyVersion"].startswith("projects/acme/locations/us-east5/keyRings/images-")
    attestors = Store(engine.paths.cloud_db).find("gcp:binaryauthorization/attestor:Attestor")
    note = attestors[0].outputs["attestationAuthorityNote"]
    pem = note["publicKeys"][0]["pkixPublicKey"]["publicKeyPem"]
    assert load_pem_public_key(pem.encode())
    engine.run("up", "--yes", "--skip-preview", "--expect-no-changes", shape="images-audit")
    engine.run("refresh", "--yes", "--expect-no-changes", shape="images-audit")
    changed = engine.run("preview", "--diff", shape="images-enforce")
    assert "1 to update" in changed
    assert '"DRYRUN_AUDIT_LOG_ONLY" => "ENFORCED_BLOCK_AND_AUDIT_LOG"' in changed
    engine.up(shape="images-enforce")
    engine.run("destroy", "--yes", "--skip-preview", shape="images-enforce")
    assert Store(engine.paths.cloud_db).all() == []
