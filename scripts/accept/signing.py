"""The signer of an acceptance report, and the revision of the stack."""

import getpass
import hashlib
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Revision:
    """Revision of a stack at the time of a run."""

    commit: str
    """Commit of the checkout; empty outside Git."""
    is_changed: bool
    """Whether the checkout has changes that are not in the commit."""
    stack_sha256: str
    """Checksum of the stack's file."""

    def __str__(self) -> str:
        """Return the revision as text."""
        if not self.commit:
            return "no git checkout"
        return self.commit + (" with uncommitted changes" if self.is_changed else "")


def revision(checkout: Path, stack: str) -> Revision:
    """Return the revision of a stack in a checkout."""
    commit = _git(checkout, "rev-parse", "HEAD")
    changes = _git(checkout, "status", "--porcelain", "--untracked-files=no")
    file = checkout / "stacks" / f"Pulumi.{stack}.yaml"
    return Revision(commit, bool(changes), hashlib.sha256(file.read_bytes()).hexdigest())


def user(checkout: Path) -> str:
    """Return the name and address of the Git user, otherwise the name of the account."""
    name, address = (_git(checkout, "config", f"user.{each}") for each in ("name", "email"))
    if name:
        return f"{name} <{address}>" if address else name
    return getpass.getuser()


def _git(checkout: Path, *arguments: str) -> str:
    """Return the output of git; empty if it fails or is not installed."""
    try:
        answer = subprocess.run(
            ["git", *arguments], cwd=checkout, capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""
