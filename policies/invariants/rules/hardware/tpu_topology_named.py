"""A pod that asks for TPU chips says of which topology."""

from collections.abc import Iterator

from policies.invariants.engines import TPU
from policies.invariants.finding import Finding, Invariant, broken
from policies.invariants.world import World

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
                f"asks for {TPU} and does not say {' and '.join(missing)}: no node is ever made",
                "select type and topology, or a compute class",
            )


INVARIANT = Invariant(
    name="tpu-names-topology",
    holds="Pods with TPU chips select type and topology, or a compute class.",
    source="GKE: deploy TPU workloads",
    check=_check,
)
