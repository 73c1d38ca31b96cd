"""What the engine would do to each resource, by what that means for those who use the platform."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from policies.framework.reading import CLUSTER, at
from scripts.shared.data_loss import losses_in, unnamed
from scripts.verdicts.restarts import Inputs, restarts
from scripts.verdicts.runs import State, Step
from twin.wire.rpc import UNKNOWN


class Kind(StrEnum):
    """What a change means, least first."""

    SAFE = "safe"
    """Created, or changed while everything goes on."""
    RESTARTS = "restarts"
    """Changed in place, and pods or nodes are re-created because of it."""
    REPLACES = "replaces"
    """Another one takes its place."""
    DESTROYS = "destroys"
    """Gone."""


@dataclass(frozen=True)
class Change:
    """One resource that changes."""

    kind: Kind
    action: str
    """`create`, `update`, `replace` or `delete`."""
    type: str
    """Type token, such as `gcp:container/nodePool:NodePool`."""
    name: str
    """In the cloud or the cluster, `namespace/name`; the program's name where it has no other."""
    urn: str
    fields: tuple[str, ...]
    """Properties that change; of a replacement those that cause it, where any does."""
    why: str = ""
    """What makes it more than safe; empty where the kind says it."""
    place: str = ""
    """Cluster it is in, or zone; empty for what is in neither."""
    is_blocked: bool = False
    """Whether it holds data or serves, would be lost, and the stack does not name it."""
    follows: bool = False
    """Whether it is re-created because its cluster is, whatever the engine says of it."""

    @property
    def title(self) -> str:
        """How a message names it, such as `NodePool system in acme-prod-us-central1`."""
        return f"{self.noun} {self.name}" + (f" in {self.place}" if self.place else "")

    @property
    def noun(self) -> str:
        """Last part of the type, such as `NodePool`."""
        return self.type.rpartition(":")[2]


_REWRITTEN = frozenset(["kubernetes:core/v1:ConfigMap", "kubernetes:core/v1:Secret"])
"""Objects that the provider replaces where others are changed: they hold nothing that is not in the
program, and pods that read them are listed by themselves where they restart."""
_REPLACES = frozenset(["create-replacement", "delete-replaced", "replace"])
_NOWHERE: Mapping[str, str] = {}
_NOT_THERE = ("pulumi:pulumi:", "pulumi:providers:")


def changes(
    steps: Iterable[Step], allowed: Iterable[str] = (), clusters: Mapping[str, str] = _NOWHERE
) -> list[Change]:
    """Return the resources that change, the gravest kind first, then by type and name.

    Components and providers are left out: only their children exist anywhere.

    Args:
        steps: of the engine's preview.
        allowed: names that the stack gives as `allow_replace`.
        clusters: name of the cluster by the URN of the provider that reaches it.
    """
    every = [step for step in steps if _is_real(step)]
    gone = _replaced(every)
    by_urn: dict[str, list[Step]] = {}
    for step in every:
        if step["op"] != "same" or clusters.get(_provider(_state(step))) in gone:
            by_urn.setdefault(step["urn"], []).append(step)
    lost = list(losses_in(_metadata(step) for each in by_urn.values() for step in each))
    told = _Told({loss.urn for loss in unnamed(lost, allowed)}, clusters, gone)
    found = [each for urn, group in by_urn.items() if (each := _change(urn, group, told))]
    gravity = list(Kind)
    return sorted(found, key=lambda one: (-gravity.index(one.kind), one.type, one.place, one.name))


def unchanged(steps: Iterable[Step], clusters: Mapping[str, str] = _NOWHERE) -> int:
    """Return how many resources stay as they are; components and providers do not count.

    Objects of a cluster that is replaced do not stay, whatever the engine says of them.
    """
    every = [step for step in steps if _is_real(step)]
    gone = _replaced(every)
    return sum(
        step["op"] == "same" and clusters.get(_provider(_state(step))) not in gone for step in every
    )


def _replaced(steps: Iterable[Step]) -> set[str]:
    """Return the names of the clusters that are replaced."""
    return {
        str(_inputs(step.get("oldState")).get("name"))
        for step in steps
        if step["op"] in _REPLACES and _state(step)["type"] == CLUSTER and step.get("oldState")
    }


def _is_real(step: Step) -> bool:
    state = _state(step)
    return bool(state.get("custom", True)) and not str(state["type"]).startswith(_NOT_THERE)


def _state(step: Step) -> State:
    return step.get("newState") or step.get("oldState") or {"type": ""}


def _metadata(step: Step) -> dict[str, Any]:
    """Return a step of `preview --json` as the engine's events have it."""
    return {
        "op": step["op"],
        "urn": step["urn"],
        "type": _state(step)["type"],
        "old": step.get("oldState"),
        "new": step.get("newState"),
        "keys": step.get("replaceReasons"),
    }


@dataclass(frozen=True)
class _Told:
    """What one resource's own steps do not say."""

    blocked: set[str]
    """URNs of what would be lost and is not named."""
    clusters: Mapping[str, str]
    gone: set[str]
    """Names of clusters that are replaced, with all that is in them."""


def _change(urn: str, group: list[Step], told: _Told) -> Change | None:
    operations = {step["op"] for step in group}
    old = next((s["oldState"] for s in group if s.get("oldState")), None)
    new = next((s["newState"] for s in reversed(group) if s.get("newState")), None)
    state: State = new or old or {}
    follows = told.clusters.get(_provider(state)) in told.gone
    follows = follows and not operations & {"create", "delete"}
    if follows:
        kind, action, fields, why = Kind.REPLACES, "replace", (), ""
    elif operations & _REPLACES:
        is_text = str(state["type"]) in _REWRITTEN
        kind, why = (Kind.SAFE, "rewritten") if is_text else (Kind.REPLACES, "")
        action, fields = "replace", _fields(group, "replaceReasons")
    elif "delete" in operations:
        kind, action, fields, why = Kind.DESTROYS, "delete", (), ""
    elif "update" in operations:
        why = restarts(str(state["type"]), _inputs(old), _inputs(new))
        kind = Kind.RESTARTS if why else Kind.SAFE
        action, fields = "update", _fields(group, "detailedDiff") or _fields(group, "diffReasons")
    elif "create" in operations:
        kind, action, fields, why = Kind.SAFE, "create", (), ""
    else:  # a read, an import: nothing of the user's changes
        return None
    named = _inputs(old or state)
    return Change(
        kind=kind,
        action=action,
        type=str(state["type"]),
        name=name_of(urn, named),
        urn=urn,
        fields=fields,
        why=why,
        place=told.clusters.get(_provider(state)) or _place(named),
        is_blocked=urn in told.blocked,
        follows=follows,
    )


def _inputs(state: State | None) -> dict[str, Any]:
    return (state or {}).get("inputs") or {}


def _place(inputs: Inputs) -> str:
    named = str(inputs.get("cluster") or inputs.get("zone") or "").rpartition("/")[2]
    return "" if named == UNKNOWN else named


def _provider(state: State) -> str:
    return str(state.get("provider") or "").rpartition("::")[0]


def _fields(group: list[Step], key: str) -> tuple[str, ...]:
    return tuple(sorted({str(name) for step in group for name in step.get(key) or ()}))


def name_of(urn: str, inputs: Inputs) -> str:
    """Return a resource's name in the cloud or cluster, or else the program's."""
    metadata = inputs.get("metadata")
    if isinstance(metadata, Mapping) and at(metadata, "name"):
        namespace = at(metadata, "namespace")
        return f"{namespace}/{at(metadata, 'name')}" if namespace else str(at(metadata, "name"))
    name = inputs.get("name")
    return str(name) if isinstance(name, str) and name else urn.rsplit("::", 1)[-1]
