"""The wheels of a release and the SBOM of what they are installed with, by uv and CycloneDX."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from scripts.terminal.console import CommandError

SBOM: Final = "gke-inference.cdx.json"
_LOCK: Final = "requirements.lock"


def build_wheels(sources: Path, folder: Path, seconds: int) -> None:
    """Write the wheel of every member of the workspace; the build backend is that of the lock.

    Args:
        sources: Files of a commit.
        folder: Where to write them.
        seconds: Time of the files in a wheel, since 1970.
    """
    _run(
        [
            *(_program("uv"), "build", "--quiet", "--wheel", "--all-packages"),
            *("--build-constraints", _LOCK, "--require-hashes"),
            *("--python", sys.executable, "--out-dir", str(folder)),
        ],
        sources,
        seconds,
    )
    (folder / ".gitignore").unlink(missing_ok=True)  # uv's


def write_sbom(sources: Path, folder: Path, seconds: int) -> None:
    """Write a CycloneDX bill of materials of the lock: names, versions, package URLs, hashes."""
    _run(
        [
            *(_program("cyclonedx-py"), "requirements", _LOCK, "--pyproject", "pyproject.toml"),
            *("--output-reproducible", "--output-file", str(folder / SBOM)),
        ],
        sources,
        seconds,
    )


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def _run(command: list[str], folder: Path, seconds: int) -> None:
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
