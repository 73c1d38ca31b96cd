"""Autoscalers have room to scale, and can scale up again from zero."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.reading import at, entries
from policies.framework.rule import Invariant
from policies.objects.index import Obj
from policies.objects.world import World


def _check(world: World) -> Iterator[Finding]:
    for each in world.of("HorizontalPodAutoscaler"):
        least = each.at("spec", "minReplicas")
        least = 1 if least is None else int(least)
        most = int(each.at("spec", "maxReplicas") or 0)
        if most <= least:
            yield broken(
                each,
                "spec.maxReplicas",
                most,
                f"minReplicas is {least}: it can never scale",
                "raise maxReplicas, or remove the autoscaler",
            )
        if least == 0 and not _wakes(each):
            yield broken(
                each,
                "spec.minReplicas",
                0,
                "no replica reports a metric at zero replicas: it never scales up again",
                "add an External or Object metric, or keep one replica",
            )


def _wakes(each: Obj) -> bool:
    return any(
        at(metric, "type") in ("External", "Object")
        for metric in entries(each.body, "spec", "metrics")
    )


RULE = Invariant(
    name="scaling-has-room",
    description="Autoscalers have a maximum above the minimum, and can scale up from zero.",
    reference="accelerated-platforms async-inference hpa.yaml: minimum and maximum are both 1",
    check=_check,
)
