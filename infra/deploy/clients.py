"""Wires clients: the keys that all regions share, and the gate and stores of each region."""

import pulumi

from gke_inference.clients.apigee_gate import ApigeeGate
from gke_inference.clients.client_gate import ClientGate
from gke_inference.clients.client_keys import ClientKeys
from gke_inference.clients.counter_store import AnswerStore, CounterStore
from gke_inference.cluster.workload_identity import WorkloadIdentity, principal
from infra.deploy import clients_arguments as assemble
from infra.deploy.network import RegionNetwork
from infra.plan import RegionPlan
from infra.plan.clients import GATE, cached_in, gated
from infra.plan.names import resolve_names
from infra.stack import Platform


def build_client_keys(platform: Platform, after: list[pulumi.Resource]) -> None:
    """Build the secret with the client keys, if the stack has client teams.

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
        resolve_names(platform).gateway_namespace(),
        GATE,
    )
    ClientKeys(
        "client-keys",
        assemble.keys_args(platform, clients, [reader]),
        pulumi.ResourceOptions(depends_on=after),
    )


def build_client_gate(
    platform: Platform,
    region: RegionPlan,
    network: RegionNetwork,
    inside: pulumi.ResourceOptions,
    gateway: pulumi.Resource,
    guards: list[pulumi.Resource],
) -> None:
    """Build the gate in front of a region's models, if the stack has client teams or Apigee.

    Args:
        platform: The stack.
        region: The region.
        network: The network, as the region takes it.
        inside: Options with the cluster's Kubernetes provider and dependencies.
        gateway: The region's gateway, which an extension names.
        guards: Guardrails, which the gate names.
    """
    managed = assemble.apigee_args(platform, region.name, network.network, network.subnetwork)
    if managed is not None:
        last = pulumi.ResourceOptions(depends_on=[gateway])
        ApigeeGate(f"{region.name}-apigee", managed, pulumi.ResourceOptions.merge(inside, last))
    clients = gated(platform)
    if clients is None:
        return
    identity = WorkloadIdentity(
        f"{region.name}-{GATE}-identity", assemble.gate_identity_args(platform), inside
    )
    counters = assemble.store_args(
        platform, clients, region.name, network.network, network.subnetwork
    )
    store: CounterStore | None = None
    if counters is not None:
        after = pulumi.ResourceOptions(depends_on=[*network.after])
        store = CounterStore(f"{region.name}-counters", counters, after)
    answers: AnswerStore | None = None
    cache = cached_in(platform, region.name)
    if cache is not None:
        args = assemble.answers_args(
            platform, cache, region.name, network.network, network.subnetwork
        )
        policy = [] if store is None else [store]
        after = pulumi.ResourceOptions(depends_on=[*network.after, *policy])
        answers = AnswerStore(f"{region.name}-answers", args, after)
    ClientGate(
        f"{region.name}-{GATE}",
        assemble.gate_args(platform, clients, region, store, answers),
        pulumi.ResourceOptions.merge(
            inside, pulumi.ResourceOptions(depends_on=[identity, gateway, *guards])
        ),
    )
