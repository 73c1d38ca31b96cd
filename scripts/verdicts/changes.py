"""The changes of each resource, classified by their effect on users of the platform."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from policies.framework.reading import CLUSTER, at
from scripts.shared.data_loss import losses_in, unnamed
from scripts.verdicts.restarts import Inputs, restarts
from scripts.verdicts.runs import State, Step
from twin.wire.property_values import UNKNOWN


class Kind(StrEnum):
    """Effect of a change, in ascending severity."""

    SAFE = "safe"
    """Created, or changed without a disruption."""
    RESTARTS = "restarts"
    """Changed in place, and pods or nodes are re-created because of it."""
    REPLACES = "replaces"
    """Replaced by a new resource."""
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
    """Name in the cloud, or `namespace/name` in the cluster; otherwise the program's name."""
    urn: str
    fields: tuple[str, ...]
    """Changed properties; for a replacement, those that cause it, if any."""
    why: str = ""
    """Reason why the change is not safe; empty if the kind explains it."""
    place: str = ""
    """Cluster or zone; empty if the resource is in neither."""
    is_blocked: bool = False
    """Whether a protected resource would be lost without being listed in the stack."""
    follows: bool = False
    """Whether it is re-created with its cluster, whatever the engine reports."""

    @property
    def title(self) -> str:
        """Name for messages, such as `NodePool system in acme-prod-us-central1`."""
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
    """Return the changed resources, most severe kind first, then by type and name.

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
    """Return the number of unchanged resources, without components and providers.

    Objects of a replaced cluster count as changed, whatever the engine reports.
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
    """Return a step of `preview --json` in the form of the engine's events."""
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
    """Facts about the changes that a single step does not have."""

    blocked: set[str]
    """URNs of losses that the stack does not allow."""
    clusters: Mapping[str, str]
    gone: set[str]
    """Names of replaced clusters, with everything in them."""


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
    else:  # a read or an import changes nothing for the user
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
    """Return a resource's name in the cloud or cluster, otherwise the program's name."""
    metadata = inputs.get("metadata")
    if isinstance(metadata, Mapping) and at(metadata, "name"):
        namespace = at(metadata, "namespace")
        return f"{namespace}/{at(metadata, 'name')}" if namespace else str(at(metadata, "name"))
    name = inputs.get("name")
    return str(name) if isinstance(name, str) and name else urn.rsplit("::", 1)[-1]
