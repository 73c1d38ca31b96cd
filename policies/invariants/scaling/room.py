"""Autoscalers have room to scale, and can scale up again from zero."""

from collections.abc import Iterator
from typing import Any

from policies.framework.finding import Finding, broken
from policies.framework.reading import at, entries
from policies.framework.rule import Invariant
from policies.objects.index import Obj
from policies.objects.world import World

FIXED_SIZE_REASON = "gke-inference/fixed-size-because"
"""Annotation with the reason for a maximum that is the minimum."""
_DEFAULT_POLICIES: list[dict[str, Any]] = [
    {"type": "Pods", "value": 4},
    {"type": "Percent", "value": 100},
]


def _check(world: World) -> Iterator[Finding]:
    for each in world.of("HorizontalPodAutoscaler"):
        least = each.at("spec", "minReplicas")
        least = 1 if least is None else int(least)
        most = int(each.at("spec", "maxReplicas") or 0)
        is_fixed = bool(at(each.body, "metadata", "annotations", FIXED_SIZE_REASON))
        if most < least or (most == least and not is_fixed):
            yield broken(
                each,
                "spec.maxReplicas",
                most,
                f"minReplicas is {least}: it can never scale",
                f"raise maxReplicas, or say why the size is fixed: annotation {FIXED_SIZE_REASON}",
            )
        if least == 0 and not _wakes(each):
            yield broken(
                each,
                "spec.minReplicas",
                0,
                "no replica reports a metric at zero replicas: it never scales up again",
                "add an External or Object metric, or keep one replica",
            )
        if least == 0 and not most_from_zero(each.at("spec", "behavior", "scaleUp")):
            yield broken(
                each,
                "spec.behavior.scaleUp",
                _named(each.at("spec", "behavior", "scaleUp")),
                "it allows no pod more than a percentage of none: it never scales up again",
                "add a policy of type Pods with selectPolicy Max, or keep one replica",
            )


def most_from_zero(scale_up: Any) -> int:
    """Return how many replicas scaleUp allows after a period without any.

    A Percent policy allows `ceil(replicas at the start of the period x (1 + value / 100))`, which
    is 0 from 0 (kubernetes v1.37.0, pkg/controller/podautoscaler/horizontal.go,
    calculateScaleUpLimitWithScalingRules). Without policies, the defaults apply: 4 pods or 100
    percent, the larger.
    """
    rules: dict[str, Any] = scale_up or {}
    choice = rules.get("selectPolicy") or "Max"
    if choice == "Disabled":
        return 0
    policies: list[dict[str, Any]] = rules.get("policies") or _DEFAULT_POLICIES
    allowed = [int(each["value"]) if each["type"] == "Pods" else 0 for each in policies]
    return min(allowed) if choice == "Min" else max(allowed)


def _named(scale_up: Any) -> str:
    policies = entries({"scaleUp": scale_up}, "scaleUp", "policies")
    kinds = ", ".join(f"{each.get('type')} {each.get('value')}" for each in policies)
    return f"{scale_up.get('selectPolicy') or 'Max'} of {kinds or 'the defaults'}"


def _wakes(each: Obj) -> bool:
    return any(
        at(metric, "type") in ("External", "Object")
        for metric in entries(each.body, "spec", "metrics")
    )


RULE = Invariant(
    name="scaling-has-room",
    description=(
        "Autoscalers have a maximum above the minimum, or a reason for one size, and can scale up"
        " from zero."
    ),
    reference="accelerated-platforms async-inference hpa.yaml: minimum and maximum are both 1",
    check=_check,
)
