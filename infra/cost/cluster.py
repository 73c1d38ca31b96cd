"""Costs of clusters and nodes without accelerators."""

from collections.abc import Iterator

from gke_inference.catalogue.platform_prices import machine_price
from infra.cost.nodes import system_nodes
from infra.cost.parts import CLUSTER, Part, always, listed, part
from infra.plan import Plan


def cluster_parts(plan: Plan, mean_share: float) -> Iterator[Part]:
    """Yield the management fee and system nodes of each cluster that the stack creates."""
    for region in plan.regions.values():
        if region.settings.existing.cluster is not None:
            continue
        yield listed(CLUSTER, "management fee", region.name, "cluster-fee", always(1))
        nodes = system_nodes(region, mean_share)
        if nodes is None:
            what = "what Autopilot takes for pods without accelerators, and beside accelerators"
            yield part(CLUSTER, what, region.name, None, always(1))
            continue
        machine = nodes.machine_type
        price = machine_price(machine, region.name)
        yield part(
            CLUSTER, f"system nodes {machine}", region.name, price, nodes.count, unit="nodes"
        )
