"""The changed part of a platform as a graph: the changed objects and their direct neighbors."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from policies.framework.reading import CLUSTER, COMPUTE_CLASS_LABEL, NODE_POOL, at, entries, section
from policies.objects.pods import PodOf
from policies.objects.world import World
from scripts.verdicts.changes import Change, Kind
from scripts.verdicts.restarts import WORKLOADS
from scripts.verdicts.runs import State

_COLUMNS: dict[str, int] = {
    "Gateway": 0,
    "HTTPRoute": 1,
    "InferencePool": 2,
    **dict.fromkeys(WORKLOADS, 3),
    "PersistentVolumeClaim": 4,
    "ComputeClass": 4,
    "NodePool": 5,
}
"""Kinds in the graph, from the client to the machine."""


@dataclass(frozen=True)
class Node:
    """An object in a cluster."""

    kind: str
    name: str
    action: str = ""
    """`create`, `update`, `replace` or `delete`; empty if unchanged."""
    gravity: Kind | None = None

    @property
    def column(self) -> int:
        """Position between the client (0) and the machine."""
        return _COLUMNS[self.kind]


@dataclass(frozen=True)
class Cluster:
    """Graph of one cluster."""

    name: str
    action: str
    gravity: Kind | None
    nodes: tuple[Node, ...]
    edges: tuple[tuple[int, int], ...]
    """Pairs of indices into `nodes`, ordered from the client."""


@dataclass(frozen=True)
class Topology:
    """Clusters with a change in the graph."""

    clusters: tuple[Cluster, ...] = ()


def topology(
    changes: Iterable[Change], before: list[World], after: list[World], states: Iterable[State]
) -> Topology:
    """Return the changed objects and their neighbors.

    Args:
        changes: of the stack.
        before: objects of the base by cluster, each with its URN for a file.
        after: objects of the head, as those.
        states: resources of both sides, the head's last.
    """
    by_urn = {change.urn: change for change in changes}
    every = {state["urn"]: state for state in states}
    worlds: dict[str, list[World]] = {}
    for world in (*before, *after):
        worlds.setdefault(world.name, []).append(world)
    names = [*worlds, *(name for name in _clusters(every) if name not in worlds)]
    drawn = (_cluster(name, worlds.get(name, []), by_urn, every) for name in sorted(set(names)))
    return Topology(tuple(each for each in drawn if each.nodes or each.action))


def _clusters(states: dict[str, State]) -> Iterator[str]:
    for state in states.values():
        if state["type"] == CLUSTER:
            yield str(at(state.get("inputs"), "name"))


def _cluster(
    name: str, sides: list[World], changes: dict[str, Change], states: dict[str, State]
) -> Cluster:
    found = {(each.kind, each.name): each for each in _things(name, sides, changes, states)}
    links = sorted({link for world in sides for link in _links(world, name, states)})
    links = [(a, b) for a, b in links if a in found and b in found]
    changed = {key for key, node in found.items() if node.action}
    near = {key for a, b in links if a in changed or b in changed for key in (a, b)}
    nodes = sorted((found[key] for key in changed | near), key=lambda one: (one.column, one.name))
    index = {(node.kind, node.name): at_ for at_, node in enumerate(nodes)}
    edges = [(index[a], index[b]) for a, b in links if a in index and b in index]
    own = next(
        (
            changes[urn]
            for urn, state in states.items()
            if state["type"] == CLUSTER and at(state, "inputs", "name") == name and urn in changes
        ),
        None,
    )
    return Cluster(
        name, own.action if own else "", own.kind if own else None, tuple(nodes), tuple(edges)
    )


def _things(
    cluster: str, sides: list[World], changes: dict[str, Change], states: dict[str, State]
) -> Iterator[Node]:
    for world in sides:
        for obj in world.of(*_COLUMNS):
            yield _node(obj.kind, obj.name, changes.get(obj.file))
    for urn, state in states.items():
        if state["type"] == NODE_POOL and _home(state) == cluster:
            yield _node("NodePool", str(at(state, "inputs", "name")), changes.get(urn))


def _node(kind: str, name: str, change: Change | None) -> Node:
    return Node(kind, name, change.action, change.kind) if change else Node(kind, name)


def _home(state: State) -> str:
    return str(at(state, "inputs", "cluster")).rpartition("/")[2]


Key = tuple[str, str]


def _links(world: World, cluster: str, states: dict[str, State]) -> Iterator[tuple[Key, Key]]:
    """Yield the links between objects, from the client to the machine."""
    yield from _of_routes(world)
    for pool in world.of("InferencePool"):
        labels = section(pool.body, "spec", "selector", "matchLabels")
        for pod in world.selected(pool.namespace, {"matchLabels": labels}) if labels else ():
            yield (pool.kind, pool.name), (pod.obj.kind, pod.obj.name)
    for pod in world.pods:
        if pod.obj.kind in WORKLOADS:
            yield from _of_pods(pod)
    for state in states.values():
        labels: Any = at(state, "inputs", "nodeConfig", "labels")
        if state["type"] == NODE_POOL and _home(state) == cluster and labels:
            chosen = labels.get(COMPUTE_CLASS_LABEL)
            if chosen:
                name = str(at(state, "inputs", "name"))
                yield ("ComputeClass", str(chosen)), ("NodePool", name)


def _of_routes(world: World) -> Iterator[tuple[Key, Key]]:
    for route in world.of("HTTPRoute"):
        for parent in entries(route.body, "spec", "parentRefs"):
            yield ("Gateway", str(at(parent, "name"))), (route.kind, route.name)
        for rule in entries(route.body, "spec", "rules"):
            for target in entries(rule, "backendRefs"):
                if at(target, "kind") == "InferencePool":
                    yield (route.kind, route.name), ("InferencePool", str(at(target, "name")))


def _of_pods(pod: PodOf) -> Iterator[tuple[Key, Key]]:
    me = (pod.obj.kind, pod.obj.name)
    if pod.compute_class is not None:
        yield me, ("ComputeClass", pod.compute_class)
    for volume in pod.volumes.values():
        if claim := at(volume, "persistentVolumeClaim", "claimName"):
            yield me, ("PersistentVolumeClaim", str(claim))
