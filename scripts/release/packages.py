"""The wheels of a release, built by uv, and the programs that build a release."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from scripts.terminal.console import CommandError

_LOCK: Final = "requirements.lock"


def build_wheels(sources: Path, folder: Path, seconds: int) -> None:
    """Write the wheel of every member of the workspace; the build backend is that of the lock.

    Args:
        sources: Files of a commit.
        folder: Where to write them.
        seconds: Time of the files in a wheel, since 1970.
    """
    run_program(
        [
            *(program_of("uv"), "build", "--quiet", "--wheel", "--all-packages"),
            *("--build-constraints", _LOCK, "--require-hashes"),
            *("--python", sys.executable, "--out-dir", str(folder)),
        ],
        sources,
        seconds,
    )
    (folder / ".gitignore").unlink(missing_ok=True)  # uv's


def program_of(name: str) -> str:
    """Return the path of a program of this environment."""
    return str(Path(sys.executable).with_name(name))


def run_program(command: list[str], folder: Path, seconds: int) -> None:
    """Run a program in a folder, with the time of the commit.

    Raises:
        CommandError: It failed.
    """
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(seconds)}
    ran = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if ran.returncode != 0:
        last = (ran.stderr.strip() or ran.stdout.strip() or "no output").splitlines()[-1]
        raise CommandError(f"{Path(command[0]).name}: exited with {ran.returncode}: {last}")
