"""Pods tolerate the taints of the nodes that their class or selector can place them on."""

from collections.abc import Iterator

from gke_inference.catalogue.accelerators import catalogue_taints
from policies.framework.finding import Finding, broken
from policies.framework.rule import Invariant
from policies.objects.accelerators import GPU, TPU, resource_of
from policies.objects.compute_classes import rungs_of
from policies.objects.pods import PodOf
from policies.objects.world import World

_SPOT, _QUEUED = "cloud.google.com/gke-spot", "cloud.google.com/gke-queued"


def _check(world: World) -> Iterator[Finding]:
    for pod in world.pods:
        for key, value, reason in _taints(pod):
            if not pod.tolerates(key, value):
                yield broken(
                    pod.obj,
                    pod.at("spec.tolerations"),
                    None,
                    f"{reason} have the taint {key}={value}:NoSchedule, which is not tolerated",
                    f"tolerate {key}",
                )


def _taints(pod: PodOf) -> Iterator[tuple[str, str, str]]:
    """Yield (key, value, whose) for each taint that GKE does not tolerate automatically.

    GKE adds tolerations for requested accelerators and selected compute classes.
    """
    listed = rungs_of(pod)
    if any(rung.is_spot for rung in listed) or pod.node_label(_SPOT) == "true":
        yield _SPOT, "true", "spot nodes"
    if pod.node_label(_QUEUED) == "true":
        yield _QUEUED, "true", "queued provisioning nodes"
    asked = {resource_of(container) for container in pod.containers} - {None}
    if asked or not listed:
        return
    taints = catalogue_taints()
    offered = {rung.resource for rung in listed}
    for resource, kind in ((GPU, "gpu"), (TPU, "tpu")):
        if resource in offered:
            yield taints[kind]["key"], taints[kind]["value"], f"{kind.upper()} nodes"


RULE = Invariant(
    name="tolerations-match-rungs",
    description="Pods tolerate the taints of every rung that they may run on.",
    reference="google/skills gke-compute-classes: spot and accelerator taints",
    check=_check,
)
