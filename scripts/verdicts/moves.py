"""The pods that a change restarts, by workload, or by node pool if nodes are re-created."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from policies.framework.reading import CLUSTER, COMPUTE_CLASS_LABEL, NODE_POOL, at
from policies.objects.pods import PodOf
from policies.objects.scaling import replicas
from policies.objects.world import World
from scripts.verdicts.changes import Change, Kind
from scripts.verdicts.runs import State

_MIGRATION = ("spec", "activeMigration", "optimizeRulePriority")
_GRAVE = (Kind.RESTARTS, Kind.REPLACES, Kind.DESTROYS)


@dataclass(frozen=True)
class Move:
    """Pods of one workload that a change restarts or removes."""

    cluster: str
    workload: str
    """`Kind namespace/name`."""
    minimum: int | None
    """Minimum number of pods; None for one on each node."""
    maximum: int | None
    why: str

    @property
    def pods(self) -> str:
        """Range as text."""
        if self.minimum is None:
            return "one a node"
        return (
            str(self.minimum)
            if self.minimum == self.maximum
            else f"{self.minimum} to {self.maximum}"
        )


def moves(
    changes: Iterable[Change], before: list[World], after: list[World], states: Iterable[State]
) -> list[Move]:
    """Return the pods that restart, each workload once, by cluster.

    Args:
        changes: of the stack.
        before: objects of the base by cluster, each with its URN for a file.
        after: objects of the head, as those.
        states: resources of the base, for the labels of its node pools.
    """
    old, new = ({world.name: world for world in side} for side in (before, after))
    by_urn = {state["urn"]: state for state in states}
    found: dict[tuple[str, str], Move] = {}
    for change in changes:
        for move in _moved(change, old, new, by_urn):
            found.setdefault((move.cluster, move.workload), move)
    return sorted(found.values(), key=lambda one: (one.cluster, one.workload))


def _moved(
    change: Change, before: dict[str, World], after: dict[str, World], states: dict[str, State]
) -> Iterator[Move]:
    state = states.get(change.urn)
    if state is None:
        return  # a new pool: nothing runs on it yet
    inputs: dict[str, Any] = state.get("inputs") or {}
    if change.type == CLUSTER and change.kind in _GRAVE:
        world = before.get(str(inputs.get("name")))
        why = f"cluster {change.name} is {_verb(change)}"
        yield from (_move(pod, after, why) for pod in (world.pods if world else ()))
    elif change.type == NODE_POOL and change.kind in _GRAVE:
        world = before.get(str(inputs.get("cluster", "")).rpartition("/")[2])
        why = f"node pool {change.name} is {_verb(change)}"
        placed = [pod for pod in (world.pods if world else ()) if _runs_on(pod, inputs)]
        yield from (_move(pod, after, why) for pod in placed)
    elif change.type.startswith("kubernetes:"):
        yield from _in_cluster(change, inputs, before, after)


def _in_cluster(
    change: Change, inputs: dict[str, Any], before: dict[str, World], after: dict[str, World]
) -> Iterator[Move]:
    for world in before.values():
        if not any(each.file == change.urn for each in world.objects):
            continue
        if change.noun == "ComputeClass" and change.action == "update":
            name = str(at(inputs, "metadata", "name"))
            if _moves_back(after.get(world.name), name):
                why = f"compute class {name} changes, and moves pods to a better rung"
                yield from (_move(p, after, why) for p in world.pods if p.compute_class == name)
        elif change.kind in _GRAVE:
            title = f"{change.noun} {change.name}"
            why = change.why or f"it is {_verb(change)}"
            yield from (_move(pod, after, why) for pod in world.pods if pod.obj.title == title)


def _moves_back(world: World | None, name: str) -> bool:
    found = world.find("ComputeClass", "", name) if world is not None else None
    return found is not None and found.at(*_MIGRATION) is True


def _verb(change: Change) -> str:
    return {"replace": "replaced", "delete": "deleted", "update": "re-created"}[change.action]


def _runs_on(pod: PodOf, pool: dict[str, Any]) -> bool:
    """Return whether pods can run on the nodes of a pool, by compute class and taints."""
    config: dict[str, Any] = pool.get("nodeConfig") or {}
    labels: dict[str, Any] = config.get("labels") or {}
    if (pod.compute_class or "") != str(labels.get(COMPUTE_CLASS_LABEL) or ""):
        return False
    effects = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute"}
    return all(
        pod.tolerates(str(taint.get("key")), str(taint.get("value")), effects[taint["effect"]])
        for taint in config.get("taints") or ()
        if taint.get("effect") in effects and taint.get("key") != COMPUTE_CLASS_LABEL
    )


def _move(pod: PodOf, after: dict[str, World], why: str) -> Move:
    """Return the pods of a workload, counted after the change if it still exists."""
    if pod.obj.kind == "DaemonSet":
        return Move(pod.world.name, pod.obj.title, None, None, why)
    world = after.get(pod.world.name)
    pods = world.pods if world is not None else []
    now = next((each for each in pods if each.obj.title == pod.obj.title), pod)
    low, high = replicas(now)
    return Move(pod.world.name, pod.obj.title, low * now.hosts, high * now.hosts, why)
