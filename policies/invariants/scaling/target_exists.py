"""The scale target of an autoscaler exists."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, unknown
from policies.framework.rule import Invariant
from policies.objects.world import World


def _check(world: World) -> Iterator[Finding]:
    for each in world.of("HorizontalPodAutoscaler"):
        kind = str(each.at("spec", "scaleTargetRef", "kind"))
        name = str(each.at("spec", "scaleTargetRef", "name"))
        if world.find(kind, each.namespace, name) is not None:
            continue
        field = "spec.scaleTargetRef"
        if any(other.namespace == each.namespace for other in world.of(kind)):
            yield broken(
                each,
                field,
                f"{kind} {name}",
                f"no {kind} of this name is in the namespace",
                "use an existing one",
            )
        else:
            yield unknown(
                each,
                field,
                f"{kind} {name}",
                f"no {kind} of the namespace was read",
                f"check the {kind}s, too",
            )


RULE = Invariant(
    name="scale-target-exists",
    description="The target of each HorizontalPodAutoscaler exists.",
    reference="autoscaling/v2: scaleTargetRef",
    check=_check,
)
