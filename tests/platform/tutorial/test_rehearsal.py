"""The page docs/rehearsal.md, run from its own text on a twin of its own."""

import os
import sys
from pathlib import Path

import pytest

from tests.platform.tutorial.console import commands, run, unlike
from twin.host.paths import REPOSITORY

PAGE = REPOSITORY / "docs" / "rehearsal.md"


@pytest.mark.needs_tools
@pytest.mark.parametrize(
    "with_deployment",
    [
        # whole/ deploys and accepts a stack, weights/ pushes into its bucket
        pytest.param(False, id="short"),
        pytest.param(True, id="whole", marks=pytest.mark.soak),
    ],
)
def test_the_rehearsal_prints_what_its_page_shows(paths, with_deployment):
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "GKE_INFERENCE_TWIN_DIR": str(paths.root), "PATH": programs}
    found = commands(PAGE.read_text())
    lines = [command.line for command in found]
    first_up = next(at for at, line in enumerate(lines) if line.startswith("gke-inference up "))
    assert 4 <= first_up < len(found) - 5
    for command in found if with_deployment else [*found[:first_up], found[-1]]:
        printed = run(command, REPOSITORY, environment)
        assert unlike(command.shown, printed) == "", f"{command.line}\n{printed}"
    assert not paths.root.exists()  # its last command leaves nothing
