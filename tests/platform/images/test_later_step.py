"""`images bootstrap` for a stack that is deployed and adds images later, with the real engine."""

import json
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml

from infra.plan import resolve
from infra.reading.load import KEY, PROJECT, parse
from infra.stack import Platform
from scripts.images import bootstrap
from scripts.shared.engine import Engine
from scripts.shared.scratch_project import scratch_project
from twin import daemon
from twin.host import processes
from twin.host.paths import REPOSITORY, TwinPaths
from twin.world.capacity import World, initial
from twin.world.store import list_resources

# test_first_step.py has the first step of a stack that is not deployed yet
pytestmark = [pytest.mark.needs_tools, pytest.mark.soak, pytest.mark.timeout(900)]
STACK = "local"
SOURCE = f"projects/acme-inference-{STACK}/locations/us-central1/connections/c/repositories/r"
NEW = {"EngineRepository", "ImageBuild", "ImageBuilder", "Repository", "Service"}


class Deployment(Engine):
    """The stack `local` in a project of its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(TwinPaths(folder / "twin"))
        self._document = yaml.safe_load((REPOSITORY / f"stacks/Pulumi.{STACK}.yaml").read_text())
        self._project = scratch_project(folder, STACK, yaml.safe_dump(self._document))

    def run(self, *arguments: str, **more: Any) -> CompletedProcess[str]:
        more.setdefault("project", self._project)
        return super().run(*arguments, **more)

    def up(self) -> None:
        ran = self.run("up", "--yes", "--skip-preview", "-s", STACK, capture=True)
        assert ran.returncode == 0, ran.stdout + ran.stderr

    def change(self, **settings: Any) -> None:
        """Change the stack's file."""
        self._document["config"][f"{PROJECT}:{KEY}"] |= settings
        file = self._project / "stacks" / f"Pulumi.{STACK}.yaml"
        file.write_text(yaml.safe_dump(self._document))

    def platform(self) -> Platform:
        """Return the stack as its file has it."""
        return parse(json.dumps(self._document["config"][f"{PROJECT}:{KEY}"]))

    def resources(self) -> dict[str, Any]:
        """Return the inputs and the ID of each resource in the state, by URN."""
        found = self.deployment(STACK)["resources"]
        return {each["urn"]: (each.get("id"), each.get("inputs")) for each in found}


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    found = Deployment(tmp_path)
    given: dict[str, Any] = initial().model_dump() | {"build_repositories": (SOURCE,)}
    World.model_validate(given).save(found.paths.capacity_file)
    assert found.run("stack", "init", STACK, "--non-interactive", capture=True).returncode == 0
    yield found
    daemon.shut_down(found.paths)
    assert processes.running(found.paths) == {}


def test_a_later_first_step_adds_the_images_and_keeps_everything_else(
    deployment: Deployment,
) -> None:
    deployment.up()
    before, outputs = deployment.resources(), deployment.outputs(STACK)
    cloud = {each.id for each in list_resources(deployment.paths)}
    deployment.change(images={"repository": "engines", "build": {"source": {"repository": SOURCE}}})

    bootstrap.create(deployment, resolve(deployment.platform()), STACK, yes=True)
    after = deployment.resources()
    assert {urn: after.get(urn) for urn in before} == before
    assert deployment.outputs(STACK) == outputs
    assert cloud < {each.id for each in list_resources(deployment.paths)}
    added = {urn.rpartition("::")[0].rpartition(":")[2] for urn in after.keys() - before.keys()}
    assert added >= NEW
    assert not {"Cluster", "Deployment"} & added

    shown = deployment.run("preview", "-s", STACK, "--json", capture=True)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    ops = {step["op"] for step in json.loads(shown.stdout)["steps"]}
    assert not {"delete", "replace"} & ops
