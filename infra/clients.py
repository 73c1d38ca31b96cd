"""Wires clients: the keys that all regions share, and the gate of each region with its counters."""

import pulumi

from gke_inference.clients.client_gate import ClientGate
from gke_inference.clients.client_keys import ClientKeys
from gke_inference.clients.counter_store import CounterStore
from gke_inference.cluster.workload_identity import WorkloadIdentity, principal
from infra.arguments import clients as assemble
from infra.network import RegionNetwork
from infra.plan import RegionPlan
from infra.plan.clients import gated
from infra.plan.names import Names
from infra.stack import Platform


def keep_keys(platform: Platform, after: list[pulumi.Resource]) -> None:
    """Build the secret of the keys, where clients are told apart.

    Args:
        platform: The stack.
        after: The clusters: a project has no workload pool, and so no principals, before its first.
    """
    clients = gated(platform)
    if clients is None:
        return
    reader = principal(
        platform.project,
        str(platform.project_number),
        Names(platform).gateway_namespace(),
        assemble.GATE,
    )
    ClientKeys(
        "client-keys",
        assemble.keys_args(platform, clients, [reader]),
        pulumi.ResourceOptions(depends_on=after),
    )


def admit_clients(
    platform: Platform,
    region: RegionPlan,
    network: RegionNetwork,
    inside: pulumi.ResourceOptions,
    gateway: pulumi.Resource,
) -> None:
    """Build the gate in front of a region's models, where clients are told apart.

    Args:
        platform: The stack.
        region: The region.
        network: The network, as the region takes it.
        inside: The cluster's Kubernetes provider, and what must be there before.
        gateway: The region's gateway, which an extension names.
    """
    clients = gated(platform)
    if clients is None:
        return
    identity = WorkloadIdentity(
        f"{region.name}-{assemble.GATE}-identity", assemble.gate_identity_args(platform), inside
    )
    counters = assemble.store_args(
        platform, clients, region.name, network.network, network.subnetwork
    )
    address = None
    if counters is not None:
        after = pulumi.ResourceOptions(depends_on=[*network.after])
        address = CounterStore(f"{region.name}-counters", counters, after).address
    ClientGate(
        f"{region.name}-{assemble.GATE}",
        assemble.gate_args(platform, clients, region, address),
        pulumi.ResourceOptions.merge(
            inside, pulumi.ResourceOptions(depends_on=[identity, gateway])
        ),
    )
