"""The rollback of a delivered commit: one commit that gives a stack's folders what they had."""

from dataclasses import dataclass
from typing import Final

from scripts.delivery.checkout import PUSHES, Checkout
from scripts.delivery.status import SHORT
from scripts.terminal.console import CommandError

_TRAILER: Final = "Rolls-back"


@dataclass(frozen=True)
class Change:
    """The last change of a stack in its repository."""

    commit: str
    before: str
    """Commit with the previous content of the folders; empty if there is none."""
    is_rollback: bool
    """Whether the change is a rollback itself, so that `before` is known to be bad."""


@dataclass(frozen=True)
class History:
    """The folders of a stack in the history of a branch."""

    checkout: Checkout
    folders: tuple[str, ...]

    def check(self) -> None:
        """Check that a rollback is possible, before anything is waited for.

        Raises:
            CommandError: The clone is shallow, git has no identity, or the branch is not that of
                the remote.
        """
        checkout = self.checkout
        if checkout.git("rev-parse", "--is-shallow-repository") == "true":
            raise CommandError("--git: must be a clone with its history, got a shallow one")
        if checkout.run("var", "GIT_COMMITTER_IDENT").returncode:
            raise CommandError("--git: must have user.name and user.email configured, got none")
        remote = checkout.remote
        if remote is None:
            return
        mine, theirs = checkout.git("rev-parse", "HEAD"), self._fetched(remote)
        if mine != theirs:
            rule = f"must be at the last commit of {remote}/{checkout.branch}, {theirs[:SHORT]}"
            raise CommandError(f"--git: {rule}, got {mine[:SHORT]}")

    def last_change(self, good: str = "") -> Change:
        """Return the last change of the folders on the branch itself: a merge is one change.

        Args:
            good: Commit to return to; by default, the one before the change.

        Raises:
            CommandError: There is no change, or no such commit.
        """
        git = self.checkout.git
        commit = git("rev-list", "--first-parent", "-1", "HEAD", "--", *self.folders)
        if not commit:
            raise CommandError(f"--git: must have commits of {', '.join(self.folders)}, got none")
        before = self._commit(good or f"{commit}^1")
        if good and not before:
            raise CommandError(f"--good: must be a commit of the checkout, got {good!r}")
        named = git("log", "-1", f"--format=%(trailers:key={_TRAILER},valueonly)", commit)
        has_content = bool(before) and bool(self._present(before))
        return Change(commit, before if has_content else "", bool(named))

    def roll_back(self, change: Change, problem: str) -> str:
        """Commit and push the previous content of the folders, and return the commit.

        Nothing is left behind if it fails.

        Raises:
            CommandError: Git refuses, or somebody else changed the folders in the meantime.
        """
        for _ in range(PUSHES):
            old = self.checkout.git("rev-parse", "HEAD")
            self._commit_content(change, problem)
            remote = self.checkout.remote
            refusal = "" if remote is None else self.checkout.push_once(remote)
            if not refusal:
                return self.checkout.git("rev-parse", "HEAD")
            self.checkout.git("reset", "--quiet", "--soft", old)
            self._restore(old)
            self._catch_up(old, refusal)
        raise CommandError(f"git push: refused {PUSHES} times; nothing was rolled back")

    def _commit_content(self, change: Change, problem: str) -> None:
        paths = sorted({*self._present("HEAD"), *self._present(change.before)})
        self._restore(change.before)
        title = f"Roll back {', '.join(self.folders)} to {change.before[:SHORT]}"
        message = f"{title}\n\n{problem}\n\n{_TRAILER}: {change.commit}"
        self.checkout.git("commit", "--quiet", "--message", message, "--", *paths)

    def _restore(self, commit: str) -> None:
        """Give the folders the content that they have in a commit, in the index and on disk."""
        git = self.checkout.git
        git("rm", "-r", "--force", "--quiet", "--ignore-unmatch", "--", *self.folders)
        if there := self._present(commit):
            git("checkout", "--quiet", commit, "--", *there)

    def _catch_up(self, old: str, refusal: str) -> None:
        """Move to the remote's commit if others changed other folders only.

        Raises:
            CommandError: The push was refused for another reason, or the folders changed.
        """
        remote = self.checkout.remote or ""
        theirs = self._fetched(remote)
        if theirs == old:
            raise CommandError(f"git push: {refusal}; nothing was rolled back")
        if self.checkout.run("diff", "--quiet", old, theirs, "--", *self.folders).returncode:
            where = f"{', '.join(self.folders)} changed in {remote}/{self.checkout.branch}"
            raise CommandError(f"{where} in the meantime; nothing was rolled back")
        self.checkout.git("merge", "--quiet", "--ff-only", theirs)

    def _fetched(self, remote: str) -> str:
        self.checkout.git("fetch", "--quiet", remote, self.checkout.branch)
        return self.checkout.git("rev-parse", "FETCH_HEAD")

    def _present(self, commit: str) -> list[str]:
        """Return the folders that a commit has."""
        names = self.checkout.git("ls-tree", "-d", "--name-only", commit, "--", *self.folders)
        return names.splitlines()

    def _commit(self, name: str) -> str:
        found = self.checkout.run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        return found.stdout.strip() if not found.returncode else ""
