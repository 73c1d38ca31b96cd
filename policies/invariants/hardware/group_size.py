"""The group size of a LeaderWorkerSet equals the number of hosts of its TPU slice."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, unknown
from policies.framework.rule import Invariant
from policies.objects.accelerators import TPU, chips_of
from policies.objects.compute_classes import rungs_of
from policies.objects.pods import PodOf
from policies.objects.world import World

_TOPOLOGY = "cloud.google.com/gke-tpu-topology"


def _check(world: World) -> Iterator[Finding]:
    for pod in world.pods:
        if pod.obj.kind != "LeaderWorkerSet":
            continue
        asked = max((each.amount(TPU) or 0 for each in pod.containers), default=0)
        if asked:
            yield from _findings(pod, asked)


def _findings(pod: PodOf, asked: int) -> Iterator[Finding]:
    said = pod.node_label(_TOPOLOGY)
    topologies = (
        [said] if said else [rung.offer[2] for rung in rungs_of(pod) if rung.resource == TPU]
    )
    if not topologies:
        yield unknown(
            pod.obj,
            pod.at("spec.nodeSelector"),
            None,
            "neither a topology nor its class was read",
            "also check the ComputeClass",
        )
    for topology in topologies:
        chips = chips_of(str(topology))
        if chips and pod.hosts * asked != chips:
            yield broken(
                pod.obj,
                "spec.leaderWorkerTemplate.size",
                pod.hosts,
                f"{topology} with {asked} chips a host has {chips // asked} hosts",
                f"write size: {chips // asked}",
            )


RULE = Invariant(
    name="group-size-is-hosts",
    description="The size of a LeaderWorkerSet equals the number of hosts in its topology.",
    reference="GKE: multi-host TPU slices are whole; LeaderWorkerSet API",
    check=_check,
)
