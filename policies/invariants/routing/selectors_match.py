"""Selectors match at least one pod."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, unknown
from policies.framework.reading import section
from policies.framework.resources import Properties
from policies.framework.rule import Invariant
from policies.objects.world import World

_PLAIN = ("Service",)
_SELECTORS = ("InferencePool", "PodDisruptionBudget", "PodMonitoring", *_PLAIN)


def _check(world: World) -> Iterator[Finding]:
    for each in world.of(*_SELECTORS):
        selector: Properties = section(each.body, "spec", "selector")
        if each.kind in _PLAIN or (
            selector and "matchLabels" not in selector and "matchExpressions" not in selector
        ):
            selector = {"matchLabels": selector}
        if not section(selector, "matchLabels") and "matchExpressions" not in selector:
            continue  # a Service without a selector has endpoints of its own
        if world.selected(each.namespace, selector):
            continue
        shown = ", ".join(f"{k}={v}" for k, v in section(selector, "matchLabels").items())
        if any(pod.obj.namespace == each.namespace for pod in world.pods):
            yield broken(
                each,
                "spec.selector",
                shown,
                "matches the labels of no pod in the namespace",
                "use the labels of the pod template",
            )
        else:
            yield unknown(
                each,
                "spec.selector",
                shown,
                "no pods of the namespace were read",
                "also check the workloads",
            )


RULE = Invariant(
    name="selectors-match",
    description="Services, InferencePools, PodMonitorings and PDBs select existing pods.",
    reference="field experience: published manifests maintain labels and selectors manually",
    check=_check,
)
