"""The two checkouts to compare: a commit, written to a folder, and a working tree."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from infra.stack.problems import StackError
from scripts.shared.platform_state import platform_of_serving
from scripts.terminal.console import CommandError, one_line

_NO_GIT = "git: must be on PATH: it reads the files of the base"
ASIDE = (
    ".ci/",
    ".devcontainer/",
    ".github/",
    "bench/",
    "changelog.d/",
    "docs/",
    "scripts/",
    "simulator/",
    "tests/",
    "twin/",
)
"""Folders that no stack depends on; both sides use the twin and commands of this checkout."""
_FILES_ASIDE = (".gitignore", ".gitlab-ci.yml", "LICENSE", "conftest.py")
"""Files in the root that no stack depends on, besides all Markdown files there."""
_STACKS_ASIDE = ("stacks/schema.json", "stacks/README.md")
"""Files beside the stacks that none depends on; others can be their traffic."""


@dataclass(frozen=True)
class Checkout:
    """One side of a comparison."""

    name: str
    """Name for messages: `main (1a2b3c4)`, or `working tree`."""
    root: Path

    def stacks(self) -> list[str]:
        """Return the stacks that have a file, sorted."""
        files = (self.root / "stacks").glob("Pulumi.*.yaml")
        return sorted(file.name.removeprefix("Pulumi.").removesuffix(".yaml") for file in files)


def head_checkout(root: Path) -> Checkout:
    """Return a working tree as a side, including uncommitted changes."""
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
        raise CommandError(_NO_GIT) from error
    if answer.returncode:
        raise CommandError(f"git {arguments[0]}: {one_line(answer.stderr)}")
    return answer.stdout


def base_commit(head: Path, base: str, option: str = "--base") -> str:
    """Return the commit to compare with: the merge base of `head` and `base`.

    This way only changes of `head` count. If the history has no merge base, it is `base` itself.

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
        f"few of them: `git fetch --no-tags origin {base}`"
    )


def check_has_stacks(stacks: list[str], head: Path) -> None:
    """Check that a checkout has stacks.

    Raises:
        CommandError: There are none.
    """
    if not stacks:
        raise CommandError(f"--head: must have stacks/Pulumi.NAME.yaml, got none in {head}")


def checked_head(head: Path) -> Path:
    """Return the absolute path of a checkout.

    Raises:
        CommandError: The path is not a folder, or not in a git repository.
    """
    rule = f"--head: must be a checkout of git, got {str(head)!r}"
    if not head.is_dir():
        raise CommandError(f"{rule}: no such folder")
    argv = ["git", "-C", str(head), "rev-parse", "--git-dir"]
    try:
        answer = subprocess.run(argv, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise CommandError(_NO_GIT) from None
    if answer.returncode:
        lines = answer.stderr.strip().removeprefix("fatal: ").splitlines() or ["git refuses"]
        raise CommandError(f"{rule}: {lines[0]}")
    return head.resolve()


@contextmanager
def base_checkout(head: Path, base: str, commit: str) -> Generator[Checkout]:
    """Write a commit to a folder that is removed at the end of the block.

    The files come from the repository's objects through a separate index: unlike with
    `git worktree add`, nothing is left in the repository if this process is killed.
    """
    with tempfile.TemporaryDirectory(prefix="gke-inference-base-") as folder:
        root = Path(folder) / "tree"
        root.mkdir()
        index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        _git(head, "read-tree", commit, environment=index)
        _git(head, "checkout-index", "--all", f"--prefix={root}/", environment=index)
        yield Checkout(f"{base} ({commit[:7]})", root)


@contextmanager
def edited_checkout(head: Path, texts: Mapping[str, str]) -> Generator[Checkout]:
    """Yield a working tree with other texts of some files.

    Without any, it is the tree itself. Otherwise it is a copy, which is removed at the end of the
    block: of every file that git knows or does not ignore.

    Args:
        head: Working tree.
        texts: Texts by path in it.
    """
    if not texts:
        yield head_checkout(head)
        return
    listed = _git(head, "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    with tempfile.TemporaryDirectory(prefix="gke-inference-head-") as folder:
        root = Path(folder) / "tree"
        for name in filter(None, listed.split("\0")):
            source, copy = head / name, root / name
            if source.is_file() or source.is_symlink():
                copy.parent.mkdir(parents=True, exist_ok=True)
                # a link to a folder stays a link: git lists it, and not what is in the folder
                shutil.copy(source, copy, follow_symlinks=source.is_file())
        for name, text in texts.items():
            (root / name).write_bytes(text.encode())
        yield head_checkout(root)


def changed_files(head: Path, commit: str) -> list[str]:
    """Return the files that differ between a commit and a working tree, including new files."""
    top = _git(head, "rev-parse", "--show-toplevel").strip()
    known = _git(Path(top), "diff", "--name-only", "-z", "--no-renames", commit).split("\0")
    new = _git(Path(top), "ls-files", "--others", "--exclude-standard", "-z").split("\0")
    return sorted({name for name in (*known, *new) if name})


def touches(stack: str, files: list[str], platform: str | None = None) -> bool:
    """Return whether changed files can affect a stack; when in doubt, they can.

    Args:
        stack: Name of the stack.
        files: Changed files.
        platform: Name of its platform, if it is a serving stack: it has that one's settings.
    """
    return any(_touches((stack, platform), name) for name in files)


def platform_on(stack: str, checkouts: Iterable[Checkout]) -> str | None:
    """Return the platform of a serving stack, of the first checkout that has a readable one."""
    for checkout in checkouts:
        with suppress(StackError):
            name = platform_of_serving(stack, checkout.root / "stacks")
            if name is not None:
                return name
    return None


def _touches(stacks: tuple[str | None, ...], name: str) -> bool:
    if name in _STACKS_ASIDE:
        return False
    if name.startswith("stacks/Pulumi."):
        return name in {f"stacks/Pulumi.{stack}.yaml" for stack in stacks}
    if name.startswith(ASIDE) or name in _FILES_ASIDE:
        return False
    return "/" in name or not name.endswith(".md")
