"""The page docs/rehearsal.md, run from its own text on a twin of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.platform.tutorial.console import Command, commands, unlike
from twin.host.paths import REPOSITORY, TwinPaths

PAGE = REPOSITORY / "docs" / "rehearsal.md"


def run(command: Command, paths: TwinPaths, folder: Path) -> str:
    """Run a command as a reader does in the repository; return what it printed."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    answer = subprocess.run(
        ["bash", "-c", command.line.replace("FOLDER", str(folder))],
        cwd=REPOSITORY,
        env={**os.environ, "GKE_INFERENCE_TWIN_DIR": str(paths.root), "PATH": programs},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1500,
        check=False,
    )
    assert answer.returncode == 0, f"{command.line}\n{answer.stdout}"
    return answer.stdout


@pytest.mark.needs_tools
@pytest.mark.parametrize(
    "with_deployment",
    [
        # whole/ deploys and accepts the same stack, weights/ pushes into its bucket
        pytest.param(False, id="short"),
        pytest.param(True, id="whole", marks=pytest.mark.soak),
    ],
)
def test_the_tutorial_prints_what_its_page_shows(paths, tmp_path, with_deployment):
    found = commands(PAGE)
    lines = [command.line for command in found]
    first_up = next(at for at, line in enumerate(lines) if line.startswith("gke-inference up "))
    assert 3 <= first_up < len(found) - 5
    for command in found if with_deployment else [*found[:first_up], found[-1]]:
        printed = run(command, paths, tmp_path)
        assert unlike(command.shown, printed) == "", f"{command.line}\n{printed}"
    assert not paths.root.exists()  # its last command leaves nothing
