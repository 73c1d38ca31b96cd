"""Waits until clusters serve the last commit of a stack, and rolls back a commit that they do not.

A commit has failed if a cluster reports errors of it for a while, or if it is not applied and
rolled out everywhere in time.
"""

from collections.abc import Callable
from dataclasses import dataclass

from scripts.delivery.checkout import Checkout
from scripts.delivery.status import Delivered
from scripts.terminal.console import CommandError

_SHORT = 12


@dataclass(frozen=True)
class Watch:
    """One watch of the last commit that changed a stack."""

    checkout: Checkout
    folders: tuple[str, ...]
    """Folders of the stack in the checkout."""
    clusters: frozenset[str]
    """Names of the clusters that serve the stack."""
    look: Callable[[], list[Delivered]]
    """Returns the delivery status of the clusters; raises `CommandError` if one does not answer."""
    sleep: Callable[[float], None]
    tell: Callable[[str], None]
    limit_seconds: float
    errors_seconds: float = 30.0
    """Time for which errors must last: a webhook that restarts is not the commit's fault."""

    def run(self) -> bool:
        """Return whether the clusters serve the last commit; otherwise, roll it back.

        Raises:
            CommandError: There is no commit, nothing to roll back to, or the rollback fails.
        """
        commit, before = self.checkout.last_changes(self.folders)
        if not commit:
            raise CommandError(f"--git: must have commits of {', '.join(self.folders)}, got none")
        self.tell(f"{commit[:_SHORT]}: waiting until every cluster serves it")
        problem = self._problem(commit)
        if not problem:
            self.tell(f"{commit[:_SHORT]}: every cluster serves it")
            return True
        self.tell(f"{commit[:_SHORT]}: {problem}")
        if not before:
            raise CommandError(f"{commit[:_SHORT]} is the first commit: nothing to roll back to")
        self._roll_back(before, problem)
        return False

    def _roll_back(self, before: str, problem: str) -> None:
        self.checkout.restore(self.folders, before)
        title = f"Roll back {', '.join(self.folders)} to {before[:_SHORT]}"
        self.checkout.commit(self.folders, f"{title}\n\n{problem}")
        pushed = self.checkout.push()
        self.tell(f"{pushed[:_SHORT]}: rolled back to {before[:_SHORT]}; waiting for the clusters")
        left = self._problem(pushed)
        if left:
            raise CommandError(f"{pushed[:_SHORT]}: rolled back, but {left}")
        self.tell(f"{pushed[:_SHORT]}: every cluster serves {before[:_SHORT]} again")

    def _problem(self, commit: str) -> str:
        """Wait, and return why a commit has failed; empty if every cluster serves it."""
        waited = erring = 0.0
        while True:
            try:
                found = self.look()
            except CommandError as error:
                found, unseen = [], f": {error}"
            else:
                unseen = ""
            errors = [one for one in found if one.errors and self._is_of(commit, one)]
            late = self.clusters - {
                one.cluster for one in found if self.checkout.has(commit, one.synced)
            }
            rollouts = [
                f"{one.cluster}: rollout of {each}" for one in found for each in one.rollouts
            ]
            if not (errors or late or rollouts):
                return ""
            told = "; ".join(f"{one.cluster}: {', '.join(one.errors)}" for one in errors)
            if errors and erring >= self.errors_seconds:
                return told
            if waited >= self.limit_seconds:
                missing = f"{', '.join(sorted(late))}: not applied{unseen}" if late else ""
                what = told or missing or "; ".join(rollouts)
                return f"{what}, after {waited:.0f} s"
            self.sleep(1.0)
            waited += 1.0
            erring = erring + 1.0 if errors else 0.0

    def _is_of(self, commit: str, one: Delivered) -> bool:
        """Return whether the errors of a cluster are of a commit or of a later one."""
        return self.checkout.has(commit, one.tried) or self.checkout.has(commit, one.revision)
