"""The verdict on one stack, and on all stacks together."""

import time
from collections import Counter
from dataclasses import dataclass, field, replace
from enum import StrEnum

from infra.estimate.chip_limits import short_limits
from infra.plan import Plan
from infra.stack.problems import StackError
from scripts.shared.preview_states import cluster_names
from scripts.verdicts.capacity import Asked, capacity
from scripts.verdicts.changes import Change, Kind, changes, unchanged
from scripts.verdicts.checkouts import Checkout
from scripts.verdicts.money import Money, money, resolved
from scripts.verdicts.moves import Move, moves
from scripts.verdicts.rehearsed import Rehearsed, rehearsed
from scripts.verdicts.rules import (
    Compared,
    broken_invariants,
    broken_policies,
    compared,
    readable,
    sources,
    worlds,
)
from scripts.verdicts.runs import Run, RunError, Runner, compare
from scripts.verdicts.topology import Topology, topology


class Side(StrEnum):
    """Checkouts that have a stack."""

    BOTH = "both"
    HEAD = "head"
    BASE = "base"


@dataclass(frozen=True)
class StackVerdict:
    """Effects of a change on one stack."""

    stack: str
    side: Side = Side.BOTH
    changes: tuple[Change, ...] = ()
    unchanged: int = 0
    """Number of unchanged resources."""
    moves: tuple[Move, ...] = ()
    money: Money = field(default_factory=Money)
    capacity: tuple[Asked, ...] = ()
    policies: Compared = field(default_factory=Compared)
    invariants: Compared = field(default_factory=Compared)
    limits: tuple[str, ...] = ()
    """Limits of chips that would stop the update."""
    rehearsal: Rehearsed = field(default_factory=Rehearsed)
    """The rehearsed day before and after, if the stack names a traffic file."""
    topology: Topology = field(default_factory=Topology)
    """Graph of the changes and their neighbors."""
    error: str = ""
    """Reason why there is nothing to compare; empty otherwise."""
    is_head_broken: bool = False
    """Whether the head, and so the change, causes the error."""
    seconds: float = 0.0

    @property
    def note(self) -> str:
        """Note about the stack as a whole; may be empty."""
        if self.side is not Side.BASE:
            return ""
        return (
            "Removing the stack's file destroys nothing: the listed resources stay in the cloud "
            "and are no longer managed here. Run `pulumi destroy` first."
        )

    @property
    def counts(self) -> Counter[Kind]:
        """Number of changed resources by kind."""
        return Counter(each.kind for each in self.changes)

    @property
    def to_name(self) -> tuple[str, ...]:
        """Names to add to `allow_replace` of the stack to allow every loss, each once."""
        names = (each.name.rpartition("/")[2] for each in self.changes if each.is_blocked)
        return tuple(dict.fromkeys(names))

    @property
    def allowance(self) -> str:
        """Line of the stack file that allows every loss."""
        return f"allow_replace: [{', '.join(self.to_name)}]"

    @property
    def blocks(self) -> list[str]:
        """Why the change must not be merged as it is; empty if it may."""
        found = [f"{self.stack}: {self.error}"] if self.is_head_broken else []
        lost = [each for each in self.changes if each.is_blocked]
        found += [f"{self.stack}: would {each.action} {each.title}" for each in lost]
        found += [f"{self.stack}: {each}" for each in (*self.limits, *self.rehearsal.broken)]
        for what, each in (("policy", self.policies), ("invariant", self.invariants)):
            broken = [breach for breach in each.new if breach.is_blocking]
            found += [f"{self.stack}: {what} {one.rule}: {one.where}" for one in broken]
        return found


@dataclass(frozen=True)
class Verdict:
    """Effects of a change on every stack that was compared."""

    base: str
    head: str
    stacks: tuple[StackVerdict, ...]
    untouched: tuple[str, ...] = ()
    """Stacks that the changed files do not affect; these were not run."""

    @property
    def blocks(self) -> list[str]:
        """Why the change must not be merged as it is; empty if it may."""
        return [text for each in self.stacks for text in each.blocks]

    @property
    def unread(self) -> list[StackVerdict]:
        """Stacks whose base could not be run."""
        return [each for each in self.stacks if each.error and not each.is_head_broken]

    @property
    def kind(self) -> Kind | None:
        """Most severe kind of change; None if nothing changes."""
        found = {change.kind for each in self.stacks for change in each.changes}
        return next((kind for kind in reversed(Kind) if kind in found), None)

    @property
    def word(self) -> str:
        """Verdict in one or two words."""
        if self.blocks:
            return "blocked"
        if self.unread:
            return "not compared"
        return "no change" if self.kind is None else self.kind.value


def of_stack(cli: Runner, stack: str, base: Checkout, head: Checkout) -> StackVerdict:
    """Return the effects of a change on one stack; the verdict reports what cannot run."""
    begun = time.monotonic()
    old = base if stack in base.stacks() else None
    new = head if stack in head.stacks() else None
    side = Side.HEAD if old is None else Side.BASE if new is None else Side.BOTH
    try:
        wanted = None if new is None else resolved(stack, new.root)
    except StackError as error:
        return StackVerdict(stack, side, error=f"{head.name}: {_line(error)}", is_head_broken=True)
    try:
        run = compare(cli, stack, old, new)
    except RunError as error:
        return StackVerdict(stack, side, error=str(error), is_head_broken=error.side is head)
    found = _judged(stack, side, run, wanted)
    before, note = _planned(stack, old)
    return replace(
        found,
        money=money(before, wanted, note),
        capacity=() if note else capacity(before, wanted),
        limits=() if before is None or wanted is None else tuple(short_limits(before, wanted)),
        rehearsal=_rehearsed(run, before, wanted, new),
        seconds=time.monotonic() - begun,
    )


def _rehearsed(
    run: Run, before: Plan | None, wanted: Plan | None, new: Checkout | None
) -> Rehearsed:
    if wanted is None or new is None:
        return Rehearsed()
    old = None if before is None else (before, run.before)
    return rehearsed(old, (wanted, run.after), new.root / "stacks")


def _judged(stack: str, side: Side, run: Run, wanted: Plan | None) -> StackVerdict:
    new = run.after
    states = [*run.before, *new]
    # a renamed cluster keeps its current name in the report
    clusters = {**cluster_names(new), **cluster_names(list(run.before))}
    found = changes(run.steps, () if wanted is None else wanted.platform.allow_replace, clusters)
    if wanted is None:  # no run of a stack without a file deletes anything
        found = [replace(each, is_blocked=False) for each in found]
    shown = [readable(states) for states in (run.before, new)]
    read = [sources(states) for states in shown]
    before, after = worlds(read[0]), worlds(read[1])
    return StackVerdict(
        stack=stack,
        side=side,
        changes=tuple(found),
        unchanged=unchanged(run.steps, clusters),
        moves=tuple(moves(found, before, after, run.before)),
        policies=compared(*map(broken_policies, shown)),
        invariants=compared(*map(broken_invariants, read)),
        topology=topology(found, before, after, states),
    )


def _planned(stack: str, old: Checkout | None) -> tuple[Plan | None, str]:
    """Return the stack of the base, or the reason why this checkout cannot read it."""
    try:
        return (None if old is None else resolved(stack, old.root)), ""
    except StackError as error:
        where = old.name if old else ""
        return None, f"{where}: this checkout cannot read its stack: {_line(error)}"


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
