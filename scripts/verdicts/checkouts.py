"""The two checkouts that are compared: a commit, written to a folder, and a working tree."""

import os
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scripts.console import CommandError

ASIDE = (
    ".ci/",
    ".github/",
    "changelog.d/",
    "docs/",
    "scripts/",
    "simulator/",
    "tests/",
    "twin/",
)
"""Folders that no stack is made of: twin and program are this checkout's for both sides."""
_FILES_ASIDE = (".gitignore", ".gitlab-ci.yml", "LICENSE")
"""Files at the root that no stack is made of, as no Markdown there."""


@dataclass(frozen=True)
class Checkout:
    """One side of a comparison."""

    name: str
    """As a message spells it: `main (1a2b3c4)`, or `working tree`."""
    root: Path

    def stacks(self) -> list[str]:
        """Return the stacks that have a file, sorted."""
        files = (self.root / "stacks").glob("Pulumi.*.yaml")
        return sorted(file.name.removeprefix("Pulumi.").removesuffix(".yaml") for file in files)


def head_checkout(root: Path) -> Checkout:
    """Return a working tree as a side: what is not committed counts."""
    return Checkout("the working tree", root)


def _git(head: Path, *arguments: str, environment: dict[str, str] | None = None) -> str:
    try:
        answer = subprocess.run(
            ["git", "-C", str(head), *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **(environment or {})},
        )
    except FileNotFoundError as error:
        raise CommandError("git: must be on PATH, it reads the base's files") from error
    if answer.returncode:
        raise CommandError(f"git {arguments[0]}: {answer.stderr.strip()}")
    return answer.stdout


def base_commit(head: Path, base: str, option: str = "--base") -> str:
    """Return the commit to compare with: where `head` and `base` parted.

    So only what `head` changes counts. It is `base` itself where the history does not say.

    Args:
        head: a working tree.
        base: commit, branch or tag.
        option: that an error is about.

    Raises:
        CommandError: `head` is in no repository, or that knows no such commit.
    """
    _git(head, "rev-parse", "--git-dir")
    for name in (base, f"origin/{base}"):
        try:
            tip = _git(head, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}").strip()
        except CommandError:
            continue
        try:
            return _git(head, "merge-base", tip, "HEAD").strip()
        except CommandError:
            return tip
    raise CommandError(
        f"{option}: must be a commit, branch or tag of {head}, got {base!r}; a shallow clone has "
        f"few: `git fetch --no-tags origin {base}`"
    )


@contextmanager
def base_checkout(head: Path, base: str, commit: str) -> Generator[Checkout]:
    """Write a commit to a folder that is removed when the block ends, however it ends.

    The files come from the repository's objects by an index of their own: unlike after
    `git worktree add`, nothing is left in the repository if this process is killed.
    """
    with tempfile.TemporaryDirectory(prefix="gke-inference-base-") as folder:
        root = Path(folder) / "tree"
        root.mkdir()
        index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        _git(head, "read-tree", commit, environment=index)
        _git(head, "checkout-index", "--all", f"--prefix={root}/", environment=index)
        yield Checkout(f"{base} ({commit[:7]})", root)


def changed_files(head: Path, commit: str) -> list[str]:
    """Return what differs between a commit and the files of a working tree, new ones included."""
    top = _git(head, "rev-parse", "--show-toplevel").strip()
    known = _git(Path(top), "diff", "--name-only", "-z", "--no-renames", commit).split("\0")
    new = _git(Path(top), "ls-files", "--others", "--exclude-standard", "-z").split("\0")
    return sorted({name for name in (*known, *new) if name})


def touches(stack: str, files: list[str]) -> bool:
    """Say whether changed files may change what a stack makes: when in doubt, they do."""
    return any(_touches(stack, name) for name in files)


def _touches(stack: str, name: str) -> bool:
    if name.startswith("stacks/"):
        return name == f"stacks/Pulumi.{stack}.yaml"
    if name.startswith(ASIDE) or name in _FILES_ASIDE:
        return False
    return "/" in name or not name.endswith(".md")
