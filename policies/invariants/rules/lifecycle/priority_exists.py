"""The priority class of a pod exists."""

from collections.abc import Iterator

from policies.invariants.finding import Finding, Invariant, absent
from policies.invariants.world import World
from policies.reading import at

_BECAUSE = (
    "there is no such PriorityClass: the pods are refused",
    "name one that exists, or add it",
)
_UNREAD = ("no PriorityClass was read", "check the classes, too")


def _check(world: World) -> Iterator[Finding]:
    any_read = any(True for _ in world.of("PriorityClass"))
    for pod in world.pods:
        name = at(pod.spec, "priorityClassName")
        if (
            not name
            or str(name).startswith("system-")
            or world.find("PriorityClass", "", str(name))
        ):
            continue
        field = pod.at("spec.priorityClassName")
        yield absent(pod.obj, field, name, _BECAUSE, None if any_read else _UNREAD)


INVARIANT = Invariant(
    name="priority-exists",
    holds="Priority classes of pods are defined.",
    source="Kubernetes: pod priority and preemption",
    check=_check,
)
