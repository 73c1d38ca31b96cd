"""A checkout whose stacks are those of an example, and commands that run in it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.members import MEMBERS
from twin.host.paths import REPOSITORY, TwinPaths


def bare_checkout(folder: Path) -> Path:
    """Return a checkout without stacks."""
    for name in MEMBERS:
        ignored = shutil.ignore_patterns("tests")  # bytecode is copied: to compile it takes seconds
        shutil.copytree(REPOSITORY / name, folder / name, symlinks=True, ignore=ignored)
    weights = Path("docs", "examples", "predictive", "weights")  # of predictive models, for `up`
    shutil.copytree(REPOSITORY / weights, folder / weights)
    (folder / ".venv").symlink_to(REPOSITORY / ".venv")
    shutil.copy(REPOSITORY / "Pulumi.yaml", folder)
    return folder


def checkout(folder: Path, example: str) -> Path:
    """Return a checkout whose stacks are those of docs/examples/EXAMPLE."""
    bare_checkout(folder)
    shutil.copytree(REPOSITORY / "docs" / "examples" / example, folder / "stacks")
    return folder


def run(
    folder: Path, paths: TwinPaths, *arguments: str, stderr: int = subprocess.STDOUT
) -> subprocess.CompletedProcess[str]:
    """Run a command in the checkout, with standard error in its output or elsewhere."""
    return subprocess.run(
        [sys.executable, "-m", "scripts.main", *arguments],
        cwd=folder,
        env={
            **os.environ,
            "GKE_INFERENCE_TWIN_DIR": str(paths.root),
            "PYTHONPATH": f"{folder}{os.pathsep}{folder / 'components'}",
        },
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        timeout=900,
        check=False,
    )


def output_of(folder: Path, paths: TwinPaths, *arguments: str) -> str:
    """Run a command that must succeed; return what it prints on standard output."""
    answer = run(folder, paths, *arguments, stderr=subprocess.PIPE)
    assert answer.returncode == 0, f"{answer.stdout[-3000:]}{answer.stderr[-2000:]}"
    return answer.stdout
