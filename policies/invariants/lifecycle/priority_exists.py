"""The priority class of a pod exists."""

from collections.abc import Iterator

from policies.framework.finding import Finding, absent
from policies.framework.reading import at
from policies.framework.rule import Invariant
from policies.objects.world import World

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


RULE = Invariant(
    name="priority-exists",
    description="Priority classes of pods are defined.",
    reference="Kubernetes: pod priority and preemption",
    check=_check,
)
