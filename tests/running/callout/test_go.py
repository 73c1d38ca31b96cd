"""The callout's own tests, which are Go's."""

import subprocess
from pathlib import Path

import pytest

from twin.toolchain.gobuild import environment, find_go
from twin.toolchain.registry import modules

pytestmark = pytest.mark.needs_tools
SOURCES = Path(__file__).parents[3] / "workloads" / "callout"


def go(*argv: str) -> None:
    program = find_go(lambda *_: None)
    answer = subprocess.run(
        [program, *argv],
        cwd=SOURCES,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_the_twin_builds_the_callout_from_these_sources():
    assert modules()["callout"].folder.resolve() == SOURCES


def test_its_sources_have_nothing_that_go_vet_reports():
    go("vet", "./...")


def test_its_packages_do_what_their_own_tests_say():
    go("test", "./...")
