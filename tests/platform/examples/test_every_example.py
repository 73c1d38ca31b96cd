"""Every example that no other test deploys comes up on the twin, answers, and leaves nothing."""

import re
from pathlib import Path

import pytest

from tests.platform.example_checkout import checkout, output_of, run
from tests.shipped_stacks import EXAMPLES
from twin.host.paths import TwinPaths

pytestmark = [pytest.mark.needs_tools, pytest.mark.soak, pytest.mark.timeout(1800)]

STACKS = {
    "archive": ["archive"],
    "client-certificates": ["client-certificates"],
    "disaggregation": ["disaggregation"],
    "lustre-adapters": ["lustre-adapters"],
    "multi-host": ["slices"],
    "rdma": ["rdma"],
    "sdxl": ["sdxl"],
    "shared-adapters": ["shared-adapters"],
    "tcpx": ["tcpx"],
    "tcpxo": ["tcpxo"],
    "teams": ["shared", "search", "ads"],
    "three-regions": ["three-regions"],
    "video": ["video"],
}
"""Stacks by folder, in the order in which they are deployed. The twin has no Apigee."""
_ENTRY = re.compile(r"`([a-z_]+: \[.*?\])`(?=,| to )")


def prepare(folder: Path, paths: TwinPaths, stack: str) -> None:
    """Write into the twin's cloud what `up` says that it lacks."""
    refused = run(folder, paths, "up", "--stack", stack)
    if refused.returncode == 0:
        return
    entries = _ENTRY.findall(refused.stdout)
    assert entries, refused.stdout
    paths.capacity_file.parent.mkdir(parents=True, exist_ok=True)
    paths.capacity_file.write_text("\n".join(entries) + "\n")


@pytest.mark.parametrize("example", STACKS)
def test_an_example_comes_up_answers_and_leaves_nothing(
    tmp_path: Path, paths: TwinPaths, example: str
):
    assert (EXAMPLES / example).is_dir()
    folder = checkout(tmp_path / "checkout", example)
    for stack in STACKS[example]:
        prepare(folder, paths, stack)
        assert "Models   " in output_of(folder, paths, "up", "--stack", stack)
    assert "Nothing is left in the cloud." in output_of(folder, paths, "down")
