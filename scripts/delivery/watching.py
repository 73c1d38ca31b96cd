"""Waits until clusters serve the last commit of a stack, and rolls back a commit that they do not.

A commit has failed if a cluster reports errors of it for a while, or if a cluster that has read it
has not applied it and rolled it out in time. A cluster that cannot be seen, or that has not read
the commit, says nothing about the commit: nothing is rolled back for it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from scripts.delivery.rollback import History
from scripts.delivery.status import SHORT, Delivered
from scripts.terminal.console import CommandError

_LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class DeliveryStatus:
    """Delivery status of the clusters at one time."""

    seen: Mapping[str, Delivered]
    unseen: Mapping[str, str] = field(default_factory=dict[str, str])
    """Reasons, by cluster that does not answer."""


@dataclass(frozen=True)
class Watch:
    """One watch of the last commit that changed a stack."""

    history: History
    clusters: tuple[str, ...]
    """Names of the clusters that serve the stack."""
    look: Callable[[], DeliveryStatus]
    now: Callable[[], float]
    """Clock, in seconds."""
    sleep: Callable[[float], None]
    tell: Callable[[str], None]
    limit_seconds: float
    errors_seconds: float = 30.0
    """Time for which errors must last: a webhook that restarts is not the commit's fault."""

    def run(self, good: str = "") -> bool:
        """Return whether the clusters serve the last commit; otherwise, roll it back.

        Args:
            good: Commit to return to; by default, the one before the last change.

        Raises:
            CommandError: The checkout cannot be used, the clusters cannot be seen, or a rollback
                is not possible.
        """
        self.history.check()
        change = self.history.last_change(good)
        short = change.commit[:SHORT]
        self.tell(f"{short}: waiting until every cluster serves it")
        problem = self._problem(change.commit)
        if not problem:
            self.tell(f"{short}: every cluster serves it")
            return True
        self.tell(f"{short}: {problem}")
        if change.is_rollback:
            raise CommandError(f"{short} is a rollback itself; nothing was rolled back")
        if not change.before:
            raise CommandError(f"{short} is the first commit of the stack: nothing to roll back to")
        pushed = self.history.roll_back(change, problem)
        short, before = pushed[:SHORT], change.before[:SHORT]
        self.tell(f"{short}: rolled back to {before}; waiting for the clusters")
        left = self._problem(pushed)
        if left:
            raise CommandError(f"{short}: rolled back, but {left}")
        self.tell(f"{short}: every cluster serves {before} again")
        return False

    def _problem(self, commit: str) -> str:
        """Wait, and return why a commit has failed; empty if every cluster serves it.

        Raises:
            CommandError: In the end, some clusters cannot be seen or have not read the commit, and
                no other one reports a problem.
        """
        began = self.now()
        erring: float | None = None
        while True:
            status = self.look()
            now = self.now()
            waiting = {name: self._waiting(commit, name, status) for name in self.clusters}
            if not any(waiting.values()):
                return ""
            errors = [
                f"{name}: {', '.join(one.errors)}"
                for name, one in status.seen.items()
                if one.errors and self._has_read(commit, one)
            ]
            if not errors and not status.unseen:
                erring = None
            elif errors and erring is None:
                erring = now
            if errors and erring is not None and now - erring >= self.errors_seconds:
                return "; ".join(errors)
            if now - began >= self.limit_seconds:
                return self._verdict(commit, status, waiting, errors, now - began)
            self.sleep(_LOOK_SECONDS)

    def _verdict(
        self,
        commit: str,
        status: DeliveryStatus,
        waiting: Mapping[str, str],
        errors: list[str],
        seconds: float,
    ) -> str:
        """Return the problems of a commit when the time is over."""
        readers = {name for name, one in status.seen.items() if self._has_read(commit, one)}
        against = errors or [
            f"{name}: {why}" for name, why in waiting.items() if why and name in readers
        ]
        if against:
            return f"{'; '.join(against)}, after {seconds:.0f} s"
        unknown = "; ".join(f"{name}: {why}" for name, why in waiting.items() if why)
        raise CommandError(f"{unknown}, after {seconds:.0f} s; nothing was rolled back")

    def _waiting(self, commit: str, name: str, status: DeliveryStatus) -> str:
        """Return what a cluster still has to do for a commit; empty if it serves it."""
        one = status.seen.get(name)
        if one is None:
            return status.unseen.get(name, "cannot be seen")
        if not self._has_read(commit, one):
            why = f": {', '.join(one.errors)}" if one.errors else ""
            return f"has not read {commit[:SHORT]}{why}"
        if not self._is_in(commit, one.synced):
            return f"has not applied {commit[:SHORT]}"
        return "; ".join(f"rollout of {each}" for each in one.rollouts)

    def _has_read(self, commit: str, one: Delivered) -> bool:
        return self._is_in(commit, one.revision) or self._is_in(commit, one.tried)

    def _is_in(self, commit: str, later: str) -> bool:
        return self.history.checkout.has(commit, later)
