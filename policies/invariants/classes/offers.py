"""Every rung of a pod's compute class offers what the pod requests."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, unknown
from policies.framework.rule import Invariant
from policies.objects.accelerators import resource_of
from policies.objects.compute_classes import ClassRung, rungs_of
from policies.objects.pods import Container
from policies.objects.world import World


def _check(world: World) -> Iterator[Finding]:
    for container in world.containers:
        resource = resource_of(container)
        if resource is None:
            continue
        for rung in rungs_of(container.pod):
            yield from _findings(container, resource, rung)


def _findings(container: Container, resource: str, rung: ClassRung) -> Iterator[Finding]:
    pod, asked = container.pod, container.amount(resource) or 0
    field = f"{container.path}.resources.limits[{resource}]"
    place = f"{rung.path} of class {pod.compute_class}"
    kind, count, _ = rung.offer
    if rung.resource is None:
        yield unknown(
            pod.obj,
            field,
            asked,
            f"{place} names machine types or pools, whose accelerators no object shows",
            "set the accelerator in the rung",
        )
    elif rung.resource != resource:
        yield broken(
            pod.obj,
            field,
            asked,
            f"{place} offers {rung.resource}: the pods can never run there",
            "use a separate class for each kind of accelerator",
        )
    elif count is not None and asked > count:
        yield broken(
            pod.obj,
            field,
            asked,
            f"{place} has {count} of {kind} on a node",
            f"ask for {count}, or offer nodes with {asked}",
        )


RULE = Invariant(
    name="class-offers-accelerator",
    description="Every rung of a pod's compute class has the accelerators that the pod requests.",
    reference="ComputeClass reference; a mixed class needs pods that ask for neither",
    check=_check,
)
