"""The own tests of the programs in Go, which are Go's."""

import subprocess
from pathlib import Path

import pytest

from twin.toolchain.gobuild import environment, find_go
from twin.toolchain.registry import MODULES, modules

pytestmark = pytest.mark.needs_tools
GATEWAY = Path(__file__).parents[2] / "workloads" / "gateway"
FOLDERS = [GATEWAY, MODULES / "owncallers", GATEWAY.parents[1] / "simulator" / "replayer"]


def go(folder: Path, *argv: str) -> None:
    answer = subprocess.run(
        [find_go(lambda *_: None), *argv],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.parametrize("folder", sorted(file.parent.name for file in GATEWAY.glob("*/main.go")))
def test_the_twin_builds_a_program_from_these_sources(folder):
    package = f"./{folder}"
    built = [
        each.name
        for each in modules().values()
        if each.folder.resolve() == GATEWAY and package in each.binaries.values()
    ]
    assert len(built) == 1


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_its_sources_have_nothing_that_go_vet_reports(folder):
    go(folder, "vet", "-trimpath", "./...")  # as the twin builds: its packages are compiled


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_its_packages_do_what_their_own_tests_say(folder):
    go(folder, "test", "-trimpath", "-vet=off", "./...")  # the test above has vetted them
