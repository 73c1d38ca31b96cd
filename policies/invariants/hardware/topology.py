"""The chips of a TPU topology equal the chips that the pods of one replica request."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, unknown
from policies.framework.rule import Invariant
from policies.objects.accelerators import TPU, chips_of
from policies.objects.compute_classes import rungs_of
from policies.objects.pods import Container
from policies.objects.world import World

_GROUPS = ("LeaderWorkerSet", "RayCluster")  # the former has a rule of its own
_LABEL = "cloud.google.com/gke-tpu-topology"


def _check(world: World) -> Iterator[Finding]:
    for container in world.containers:
        asked = container.amount(TPU)
        if asked is not None and container.pod.obj.kind not in _GROUPS:
            yield from _findings(container, asked)


def _findings(container: Container, asked: int) -> Iterator[Finding]:
    pod = container.pod
    said = pod.node_label(_LABEL)
    wanted = (
        [(f"spec.nodeSelector[{_LABEL}]", said)]
        if said
        else [
            (f"{rung.path}.tpu.topology of class {pod.compute_class}", rung.offer[2])
            for rung in rungs_of(pod)
            if rung.resource == TPU and rung.offer[2] is not None
        ]
    )
    for field, topology in wanted:
        chips = chips_of(str(topology))
        if chips is None:
            yield unknown(
                pod.obj,
                pod.at(field),
                topology,
                "the topology is not a product such as 2x4",
                "set the topology",
            )
        elif chips != asked * pod.hosts:
            hosts = f" on each of {pod.hosts} hosts" if pod.hosts > 1 else ""
            yield broken(
                pod.obj,
                pod.at(field) if said else field,
                topology,
                f"has {chips} chips, the pods of a replica ask for {asked}{hosts}",
                f"ask for {chips // pod.hosts} chips a pod, or choose another topology",
            )


RULE = Invariant(
    name="topology-is-chips",
    description="The chips of a TPU topology equal the chips that a replica requests.",
    reference="GKE: plan TPUs; manually maintained in published manifests",
    check=_check,
)
