"""A network and buckets that were made by hand come under a stack, which changes none of them."""

import json
from pathlib import Path
from typing import Any

import grpc
import pytest

from scripts.operate.import_file import import_file
from scripts.shared.engine import Engine
from scripts.shared.platform_state import write_state
from scripts.shared.preview_states import preview_states
from scripts.shared.scratch_project import scratch_project
from twin import daemon
from twin.host.paths import REPOSITORY, TwinPaths
from twin.wire import rpc

pytestmark = pytest.mark.needs_tools

KINDS = ("bucket", "network", "subnet")


def made_by_hand(engine: Engine, states: list[dict[str, Any]]) -> None:
    """Make resources through the provider's own interface, beside every stack."""
    ports = daemon.ports(engine.paths)
    assert ports is not None
    networks: dict[str, str] = {}
    with grpc.insecure_channel(f"127.0.0.1:{ports['gcp']}") as channel:
        stub = rpc.provider_grpc.ResourceProviderStub(channel)
        for state in states:
            inputs = {key: value for key, value in state["inputs"].items() if key[0] != "_"}
            if "network" in inputs:
                inputs["network"] = networks[inputs["project"]]
            urn = f"urn:pulumi:hand::hand::{state['type']}::{inputs['name']}"
            request = rpc.provider_pb2.CreateRequest(urn=urn, properties=rpc.to_struct(inputs))
            made = stub.Create(request)
            if state["type"].endswith(":Network"):
                networks[inputs["project"]] = made.id


def test_what_was_made_by_hand_is_adopted_and_not_changed(paths: TwinPaths, tmp_path: Path) -> None:
    engine = Engine(paths)
    states = preview_states(engine, "local")
    file = import_file(states, KINDS)
    wanted = {entry["type"] + entry["logicalName"] for entry in file["resources"] if "id" in entry}
    own = [each for each in states if each["type"] + each["urn"].split("::", 3)[3] in wanted]
    made_by_hand(engine, sorted(own, key=lambda each: not each["type"].endswith(":Network")))
    text = (REPOSITORY / "stacks" / "Pulumi.local.yaml").read_text()
    project = scratch_project(tmp_path, "local", text)
    (tmp_path / "import.json").write_text(json.dumps(file))
    common: dict[str, Any] = {"capture": True, "project": project}
    write_state(paths.root / "pulumi-state", "local")
    adopted = engine.run(
        "import",
        *("--file", str(tmp_path / "import.json"), "-s", "local", "--yes"),
        *("--generate-code=false", "--protect=false", "--skip-preview"),
        **common,
    )
    assert adopted.returncode == 0, adopted.stdout + adopted.stderr
    shown = engine.run("preview", "-s", "local", "--json", "--show-sames", **common)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    ops = {step["urn"]: step["op"] for step in json.loads(shown.stdout)["steps"]}
    of_stack = {ops[each["urn"]] for each in own}
    assert (len(own), of_stack) == (5, {"same"})
