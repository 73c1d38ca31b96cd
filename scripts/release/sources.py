"""The commit that a release is built from, and its files without anything else."""

import io
import subprocess
import tarfile
from pathlib import Path
from typing import NamedTuple

from scripts.terminal.console import CommandError


class Commit(NamedTuple):
    """A commit of this repository."""

    sha: str
    seconds: int
    """Time of the commit since 1970: the time of every file of the release (SOURCE_DATE_EPOCH)."""


def committed(repository: Path) -> Commit:
    """Return the commit that is checked out.

    Raises:
        CommandError: Files differ from the commit; the release would not have them.
    """
    changed = _git(repository, "status", "--porcelain").decode().splitlines()
    if changed:
        raise CommandError(
            f"working tree: must have no uncommitted changes, got {len(changed)}, "
            f"such as {changed[0][3:]}"
        )
    return head(repository)


def head(repository: Path) -> Commit:
    """Return the commit that is checked out, whatever else is in the working tree."""
    sha, seconds = _git(repository, "show", "-s", "--format=%H %ct", "HEAD").decode().split()
    return Commit(sha, int(seconds))


def export(repository: Path, commit: Commit, folder: Path, *names: str) -> None:
    """Write the files of a commit to a folder: all, or those with these names."""
    archive = _git(repository, "archive", "--format=tar", commit.sha, *names)
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")


def _git(repository: Path, *arguments: str) -> bytes:
    command = ["git", "-C", str(repository), *arguments]
    ran = subprocess.run(command, capture_output=True, check=False)
    if ran.returncode != 0:
        raise CommandError(f"git {arguments[0]}: {ran.stderr.decode().strip()}")
    return ran.stdout
