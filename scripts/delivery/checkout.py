"""A checkout of the repository that delivers a stack; commits tolerate concurrent pushes."""

import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.deploy.delivery import tree_folder
from infra.plan import Plan
from infra.stack import DeliverySourceKind
from scripts.terminal.console import CommandError, one_line

PUSHES: Final = 5
"""Number of attempts, each after others have pushed."""


@dataclass(frozen=True)
class Checkout:
    """The root of a checkout, on the branch that the clusters read."""

    folder: Path
    branch: str

    def check(self, paths: Sequence[str] = ()) -> None:
        """Check that the folder is a checkout of the branch without changes.

        Args:
            paths: Folders to check for changes; empty for all.

        Raises:
            CommandError: Names the option.
        """
        if not (self.folder / ".git").exists():
            raise CommandError(f"--git: must be the top of a checkout, got {str(self.folder)!r}")
        found = self.run("symbolic-ref", "--short", "--quiet", "HEAD").stdout.strip()
        if found != self.branch:
            raise CommandError(
                f"--git: must be on the branch of delivery.source, {self.branch!r}, got"
                f" {found or 'no branch'!r}"
            )
        if self.git("status", "--porcelain", "--", *paths):
            where = f" in {', '.join(paths)}" if paths else ""
            got = str(self.folder)
            raise CommandError(f"--git: must be a checkout without changes{where}, got {got!r}")

    def commit(self, folders: Iterable[str], message: str) -> None:
        """Commit only the changes in some folders.

        Raises:
            CommandError: Git refuses.
        """
        paths = sorted(folders)
        self.git("add", "--all", "--", *paths)
        if self.git("status", "--porcelain", "--", *paths):
            self.git("commit", "--quiet", "--message", message, "--", *paths)

    def push(self) -> str:
        """Push the branch if there is a remote, and return its commit.

        Own commits are rebased onto commits that others have pushed in the meantime.

        Raises:
            CommandError: The remote refuses repeatedly, or both changed the same lines.
        """
        if (remote := self.remote) is not None:
            self._push(remote)
        return self.git("rev-parse", "HEAD")

    @property
    def remote(self) -> str | None:
        """The remote that the branch is pushed to; `None` if there is none."""
        remotes = self.git("remote").splitlines()
        configured = self.run("config", "--get", f"branch.{self.branch}.remote").stdout.strip()
        return (configured or remotes[0]) if remotes else None

    def push_once(self, remote: str) -> str:
        """Push the branch without a rebase; return the refusal, empty if there is none."""
        pushed = self.run("push", "--quiet", remote, f"HEAD:refs/heads/{self.branch}")
        return one_line(pushed.stderr or pushed.stdout) if pushed.returncode else ""

    def _push(self, remote: str) -> None:
        said = ""
        for _ in range(PUSHES):
            said = self.push_once(remote)
            if not said:
                return
            pulled = self.run("pull", "--rebase", "--autostash", "--quiet", remote, self.branch)
            if pulled.returncode:
                self.run("rebase", "--abort")
                raise CommandError(f"git pull: {one_line(pulled.stderr or pulled.stdout)}")
        raise CommandError(f"git push: {said}")

    def has(self, commit: str, of: str) -> bool:
        """Return whether a commit is in the history of another, such as a cluster's."""
        if not of or commit == of:
            return commit == of
        if self.run("cat-file", "-e", f"{of}^{{commit}}").returncode:
            self.run("fetch", "--quiet")  # somebody else's
        return not self.run("merge-base", "--is-ancestor", commit, of).returncode

    def git(self, *arguments: str) -> str:
        """Return the output of git.

        Raises:
            CommandError: It fails.
        """
        ran = self.run(*arguments)
        if ran.returncode:
            raise CommandError(f"git {arguments[0]}: {one_line(ran.stderr or ran.stdout)}")
        return ran.stdout.strip()

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run git, and return how it ended.

        Raises:
            CommandError: There is no git.
        """
        try:
            return subprocess.run(
                ["git", *arguments], cwd=self.folder, capture_output=True, text=True, check=False
            )
        except FileNotFoundError:
            raise CommandError("git: must be on PATH") from None


def checkout_of(plan: Plan, stack: str, git: Path | None, *, is_run: bool) -> Checkout | None:
    """Return the checkout that delivers a stack; None if Pulumi does.

    Args:
        plan: The stack.
        stack: Its name.
        git: Root of the checkout, as given.
        is_run: Whether the share is raised, which requires a clean checkout. A rollback requires
            only clean folders of the stack.

    Raises:
        CommandError: It is missing, not needed, of another branch, or has changes; or the stack is
            delivered from a registry.
    """
    delivery = plan.platform.delivery
    if delivery.applied_with is None or delivery.source is None:
        if git is not None:
            raise CommandError(f"--git: must be omitted for {stack!r}, which Pulumi delivers")
        return None
    if delivery.source.kind is DeliverySourceKind.OCI:
        raise CommandError(
            f"--stack: must be delivered from git or by Pulumi, got {stack!r}, which is delivered"
            " from a registry: change percent in the stack file, and render --oci"
        )
    if git is None:
        raise CommandError(f"--git: is required for {stack!r}, which is delivered from git")
    return open_checkout(plan, git, is_run=is_run)


def open_checkout(plan: Plan, git: Path, *, is_run: bool) -> Checkout:
    """Return a checkout of the repository that delivers a stack.

    Args:
        plan: The stack.
        git: Root of the checkout, as given.
        is_run: Whether the whole checkout must be clean, or only the folders of the stack.

    Raises:
        CommandError: It is of another branch, or has changes.
    """
    source = plan.platform.delivery.source
    branch = None if source is None else source.branch
    found = Checkout(git, branch or "main")
    found.check(() if is_run else tree_folders(plan))
    return found


def tree_folders(plan: Plan) -> tuple[str, ...]:
    """Return the folders of a stack in its repository, one per region."""
    return tuple(tree_folder(plan.platform.delivery, name) for name in plan.regions)
