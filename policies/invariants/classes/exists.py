"""The compute class that a pod selects exists."""

from collections.abc import Iterator

from policies.framework.finding import Finding, absent
from policies.framework.rule import Invariant
from policies.objects.world import World

# GKE's built-in classes.
_BUILT_IN = frozenset(
    ["Accelerator", "Balanced", "Performance", "Scale-Out", "autopilot", "autopilot-spot"]
)
_BECAUSE = (
    "no ComputeClass has this name: the pods stay Pending",
    "use an existing one, or add it",
)
_UNREAD = ("no ComputeClass was read", "also check the classes")


def _check(world: World) -> Iterator[Finding]:
    has_classes = any(True for _ in world.of("ComputeClass"))
    for pod in world.pods:
        name = pod.compute_class
        if name is None or name in _BUILT_IN or world.find("ComputeClass", "", name):
            continue
        field = pod.at("spec.nodeSelector[cloud.google.com/compute-class]")
        yield absent(pod.obj, field, name, _BECAUSE, None if has_classes else _UNREAD)


RULE = Invariant(
    name="class-exists",
    description="The compute class a pod selects is defined.",
    reference="ComputeClass reference",
    check=_check,
)
