"""The priority class of a pod exists."""

from collections.abc import Iterator

from policies.framework.finding import Finding, absent
from policies.framework.reading import at
from policies.framework.rule import Invariant
from policies.objects.world import World

_BECAUSE = (
    "the PriorityClass does not exist: the pods are rejected",
    "use an existing one, or add it",
)
_UNREAD = ("no PriorityClass was read", "also check the classes")


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
    description="Priority classes of pods exist.",
    reference="Kubernetes: pod priority and preemption",
    check=_check,
)
