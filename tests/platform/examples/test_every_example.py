"""Every example that no other test deploys comes up on the twin, answers, and leaves nothing."""

import re
from pathlib import Path

import pytest

from tests.platform.example_checkout import checkout, output_of, run
from tests.shipped_stacks import EXAMPLES
from twin.host.paths import TwinPaths

pytestmark = [pytest.mark.needs_tools, pytest.mark.soak, pytest.mark.timeout(1800)]

STACKS = {
    "apigee": ["apigee"],
    "archive": ["archive"],
    "calendar-mode": ["calendar-mode"],
    "client-certificates": ["client-certificates"],
    "disaggregation": ["disaggregation"],
    "image-models": ["image-models"],
    "lustre-adapters": ["lustre-adapters"],
    "multi-host": ["slices"],
    "predictive": ["predictive"],
    "rdma": ["rdma"],
    "sdxl": ["sdxl"],
    "shared-adapters": ["shared-adapters"],
    "tcpx": ["tcpx"],
    "tcpxo": ["tcpxo"],
    "teams": ["shared", "search", "ads"],
    "three-regions": ["three-regions"],
    "video": ["video"],
    "vision-language": ["vision-language"],
}
"""Stacks by folder, in the order in which they are deployed."""
PLATFORM = "shared"
"""Stack whose models are those of other stacks."""
_ENTRY = re.compile(r"`([a-z_]+: \[.*?\])`(?=,| to )")


def bring_up(folder: Path, paths: TwinPaths, stack: str) -> str:
    """Deploy a stack, after giving the twin's cloud what `up` says that it lacks."""
    first = run(folder, paths, "up", "--stack", stack)
    if first.returncode == 0:
        return first.stdout
    entries = _ENTRY.findall(first.stdout)
    assert entries, first.stdout
    paths.capacity_file.parent.mkdir(parents=True, exist_ok=True)
    paths.capacity_file.write_text("\n".join(entries) + "\n")
    return output_of(folder, paths, "up", "--stack", stack)


@pytest.mark.parametrize("example", STACKS)
def test_an_example_comes_up_answers_and_leaves_nothing(
    tmp_path: Path, paths: TwinPaths, example: str
):
    assert (EXAMPLES / example).is_dir()
    folder = checkout(tmp_path / "checkout", example)
    for stack in STACKS[example]:
        printed = bring_up(folder, paths, stack)
        has_models = stack != PLATFORM
        assert ("Models   " in printed) == has_models
        assert ("Team     search" in printed) == (not has_models)
    assert "Nothing is left in the cloud." in output_of(folder, paths, "down")
