"""Pods that request TPU chips select a topology."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.rule import Invariant
from policies.objects.accelerators import TPU
from policies.objects.world import World

_LABELS = ("cloud.google.com/gke-tpu-accelerator", "cloud.google.com/gke-tpu-topology")


def _check(world: World) -> Iterator[Finding]:
    for container in world.containers:
        pod = container.pod
        if container.amount(TPU) is None or pod.compute_class is not None:
            continue
        missing = [key for key in _LABELS if pod.node_label(key) is None]
        if missing and pod.node_label("cloud.google.com/gke-nodepool") is None:
            yield broken(
                pod.obj,
                pod.at("spec.nodeSelector"),
                None,
                f"asks for {TPU} and does not say {' and '.join(missing)}: no node is ever created",
                "select type and topology, or a compute class",
            )


RULE = Invariant(
    name="tpu-names-topology",
    description="Pods with TPU chips select a type and topology, or a compute class.",
    reference="GKE: deploy TPU workloads",
    check=_check,
)
