"""Commands find the platform of a serving stack."""

import json
import shutil
from pathlib import Path

import pytest

from infra.reading.load import STACKS, read
from infra.reading.platform_reference import OUTPUT, shared
from infra.stack.problems import StackError
from scripts.shared.platform_state import platform_of_serving, refuse_platform, seed_platform
from scripts.terminal.console import CommandError

TEAMS = STACKS.parent / "docs" / "examples" / "teams"


@pytest.fixture
def stacks(tmp_path: Path) -> Path:
    return Path(shutil.copytree(TEAMS, tmp_path / "stacks"))


def test_only_a_serving_stack_has_a_platform(stacks: Path):
    found = {name: platform_of_serving(name, stacks) for name in ("search", "ads", "shared")}
    assert found == {"search": "shared", "ads": "shared", "shared": None}


def test_a_platform_without_a_file_is_refused_by_its_field(stacks: Path):
    (stacks / "Pulumi.shared.yaml").unlink()
    message = "platform must be one of ads, search, got 'shared'"
    with pytest.raises(StackError, match=message):
        platform_of_serving("search", stacks)


def test_a_platform_that_is_not_up_is_seeded_with_what_its_file_says(stacks: Path, tmp_path: Path):
    state = tmp_path / "state"
    seed_platform(state, "search", stacks, endpoint="control.example")
    (file,) = state.rglob("shared.json")
    (stack,) = json.loads(file.read_text())["checkpoint"]["latest"]["resources"]
    found = shared("shared", stack["outputs"][OUTPUT])
    assert list(found.regions) == list(read("shared", stacks).regions)
    assert {region.endpoint for region in found.regions.values()} == {"control.example"}
    assert {region.address for region in found.regions.values()} == {""}
    settings = json.loads(found.settings)
    assert set(settings["teams"]) == {"search", "ads"}
    assert "models" not in settings


def test_a_stack_of_another_layer_seeds_nothing(stacks: Path, tmp_path: Path):
    seed_platform(tmp_path / "state", "shared", stacks)
    assert not (tmp_path / "state").exists()


def test_a_command_about_models_refuses_a_platform(stacks: Path):
    refuse_platform(read("search", stacks).layer, "search")
    with pytest.raises(CommandError, match="--stack: must have models, got 'shared'"):
        refuse_platform(read("shared", stacks).layer, "shared")
