"""Violations of policies and invariants on both sides: new, fixed and unchanged.

Both sides are checked against the rules of this checkout, so that a changed rule does not count as
a change of a stack. The rules check the same inputs as in a preview.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

from policies.checker.checker import check_objects
from policies.checker.rules import invariants
from policies.framework.finding import Verdict
from policies.objects.documents import Document, Source
from policies.objects.world import World, world_of
from policies.pack.rendered import findings
from policies.rules import policies
from scripts.shared.preview_states import cluster_names, is_only_read, without_unknowns
from scripts.verdicts.runs import State
from twin.providers.kubernetes.manifests.objects import to_object
from twin.wire.property_values import SIGNATURE_KEY

_SECRET = "[secret]"  # noqa: S105 - stands for one


@dataclass(frozen=True, order=True)
class Breach:
    """A violation of one rule."""

    rule: str
    where: str
    """Resource, or object with its cluster."""
    says: str
    is_blocking: bool = True
    """Whether it fails an update; an advisory policy does not."""


@dataclass(frozen=True)
class Compared:
    """Violations before and after a change."""

    new: tuple[Breach, ...] = ()
    fixed: tuple[Breach, ...] = ()
    standing: tuple[Breach, ...] = ()

    @property
    def is_blocked(self) -> bool:
        """Whether the change breaks a rule that blocks."""
        return any(each.is_blocking for each in self.new)


def compared(before: Iterable[Breach], after: Iterable[Breach]) -> Compared:
    """Return the new, the fixed and the remaining violations."""
    old, new = set(before), set(after)
    return Compared(tuple(sorted(new - old)), tuple(sorted(old - new)), tuple(sorted(old & new)))


def opened(value: Any) -> Any:
    """Return a value of a state with secrets hidden, at any depth."""
    if isinstance(value, dict):
        mapping = cast(dict[str, Any], value)
        if SIGNATURE_KEY in mapping:
            return opened(mapping["value"]) if "value" in mapping else _SECRET
        return {key: opened(item) for key, item in mapping.items()}
    if isinstance(value, list):
        return [opened(item) for item in cast(list[Any], value)]
    return value


def readable(states: Iterable[State]) -> list[State]:
    """Return states with readable inputs: secrets hidden, unknown values as text."""
    return [
        {**state, "inputs": without_unknowns(opened(state.get("inputs") or {}))} for state in states
    ]


def broken_policies(states: Iterable[State]) -> Iterator[Breach]:
    """Yield the violations of the policy pack, from readable states."""
    levels = {name: listed.rule.level for name, listed in policies().items()}
    for each in findings(states):
        yield Breach(each.rule, each.object, each.message, levels[each.rule] == "mandatory")


def sources(states: list[State]) -> list[Source]:
    """Return the Kubernetes objects of readable states by cluster, with the URN as the file."""
    names = cluster_names(states)
    found: dict[str, list[Document]] = {name: [] for name in names.values()}
    kept = ("type", "urn", "inputs")
    resources = tuple({key: state[key] for key in kept} for state in states)
    for state in states:
        provider = str(state.get("provider", "")).rpartition("::")[0]
        is_object = str(state["type"]).startswith("kubernetes:") and not is_only_read(state)
        if is_object and provider in names:
            found[names[provider]].append(Document(state["urn"], to_object(state["inputs"])))
    return [Source(name, tuple(objects), resources) for name, objects in sorted(found.items())]


def worlds(found: Iterable[Source]) -> list[World]:
    """Return the objects of each cluster, indexed."""
    return [world_of(source) for source in found]


def broken_invariants(found: Iterable[Source]) -> Iterator[Breach]:
    """Yield the violations of invariants; undecided invariants are skipped."""
    pack = policies()  # reported among the policies already
    rules = [listed.rule for name, listed in invariants().items() if name not in pack]
    for each in check_objects(found, rules).of(Verdict.BROKEN):
        where = f"{each.object} in {each.world}" if each.world else each.object
        field = f"{each.field}: " if each.field else ""
        yield Breach(each.rule, where, f"{field}{each.why}")
