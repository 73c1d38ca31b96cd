"""Two regions behind a multi-cluster gateway, as docs/front-door.md says: loss, drain, and end."""

import json
from collections import Counter
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from scripts.shared.engine import Engine
from tests.platform.example_checkout import checkout, output_of
from twin.host.paths import TwinPaths
from twin.tests.eventually import eventually
from twin.wire.kube import Kube
from twin.world.capacity import World

# twin/tests/running/gateway/test_fleet.py has the gateway alone, with its overflow
pytestmark = [pytest.mark.needs_tools, pytest.mark.soak, pytest.mark.timeout(1200)]

MODEL = "qwen3-0.6b"
STACK = ("--stack", "internal-front")
HOME, AWAY = "us-central1", "europe-west4"
POD = "x-gke-inference-pod"
PODS = "/api/v1/namespaces/models/pods"
NOTICED_SECONDS = 30.0
"""Two health checks, about 10 seconds, and the rest for a busy machine."""
BACK_SECONDS = 120.0
"""A lost region needs nodes and an engine again."""


@dataclass(frozen=True)
class Addresses:
    """The gateway over both clusters, and the pods behind it."""

    paths: TwinPaths
    endpoints: dict[str, str]

    def ask(self, at: str, path: str = f"/models/{MODEL}/v1") -> str:
        """Return the region that answers at the address of a region, or the status."""
        where = urlsplit(self.endpoints[at])
        connection = HTTPConnection(where.hostname or "", where.port, timeout=20)
        body = json.dumps({"model": MODEL, "prompt": "Which region?", "max_tokens": 4})
        headers = {"Content-Type": "application/json"}
        try:
            connection.request("POST", f"{path}/completions", body, headers)
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                return str(answer.status)
            return self._region(answer.headers.get(POD, ""))
        except (OSError, HTTPException):
            return "refused"
        finally:
            connection.close()

    def _region(self, pod: str) -> str:
        for region in (HOME, AWAY):
            (kubeconfig,) = self.paths.root.glob(f"clusters/{region}*/kubeconfig")
            if pod in {each["metadata"]["name"] for each in Kube(kubeconfig).list(PODS)}:
                return region
        return f"an unknown pod {pod!r}"

    def answers(self, at: str, by: str, seconds: float) -> None:
        """Wait until only one region answers at an address."""
        eventually(lambda: Counter(self.ask(at) for _ in range(5)) == {by: 5}, seconds)


def drain(folder: Path, *regions: str) -> None:
    """Write the drained regions into the stack file."""
    file = folder / "stacks" / "Pulumi.internal-front.yaml"
    front = "      front: internal\n"
    before, _, after = file.read_text().partition(front)
    lines = [line for line in after.splitlines(keepends=True) if "drain:" not in line]
    added = [f"      drain: [{', '.join(regions)}]\n"] if regions else []
    file.write_text("".join([before, front, *added, *lines]))


def test_a_model_answers_at_each_address_and_a_lost_or_drained_region_is_served_by_the_other(
    tmp_path, paths
):
    folder = checkout(tmp_path / "checkout", "internal-front")
    shown = output_of(folder, paths, "up", *STACK)
    assert f"Models   {MODEL}" in shown
    outputs = Engine(paths).outputs_of("internal-front")
    assert set(outputs["endpoints"]) == {HOME, AWAY}
    assert outputs["endpoint"] == outputs["endpoints"][AWAY], "the first region by name"
    assert outputs["model_endpoints"] == {MODEL: f"{outputs['endpoint']}/models/{MODEL}"}
    front = Addresses(paths, outputs["endpoints"])

    front.answers(HOME, HOME, BACK_SECONDS)
    front.answers(AWAY, AWAY, BACK_SECONDS)
    assert front.ask(AWAY, "/v1") == AWAY, "the only model has the plain path"
    assert front.ask(HOME, "/models/another/v1") == "404"

    known = World.load(paths.capacity_file)
    known.model_copy(update={"outages": (f"{AWAY}-*",)}).save(paths.capacity_file)
    eventually(lambda: front.ask(AWAY) == "refused", NOTICED_SECONDS)
    front.answers(HOME, HOME, NOTICED_SECONDS)
    known.save(paths.capacity_file)
    front.answers(AWAY, AWAY, BACK_SECONDS)

    known.model_copy(update={"outages": (f"{HOME}-*",)}).save(paths.capacity_file)
    eventually(lambda: front.ask(HOME) == "refused", NOTICED_SECONDS)
    front.answers(AWAY, AWAY, NOTICED_SECONDS)  # without the config cluster
    known.save(paths.capacity_file)
    front.answers(HOME, HOME, BACK_SECONDS)

    drain(folder, AWAY)
    output_of(folder, paths, "up", *STACK)
    front.answers(AWAY, HOME, NOTICED_SECONDS)
    drain(folder)
    output_of(folder, paths, "up", *STACK)
    front.answers(AWAY, AWAY, BACK_SECONDS)
    assert "Nothing is left in the cloud." in output_of(folder, paths, "down")
