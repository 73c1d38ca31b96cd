"""Wires clients: the keys that all regions share, and the gate and stores of each region."""

import pulumi

from gke_inference.clients.apigee_gate import ApigeeGate
from gke_inference.clients.client_gate import ClientGate
from gke_inference.clients.client_keys import ClientKeys
from gke_inference.clients.counter_store import AnswerStore, CounterStore
from gke_inference.cluster.workload_identity import WorkloadIdentity, principal
from infra.deploy import clients_arguments as assemble
from infra.deploy.guardrails import armor_calls
from infra.deploy.network import RegionNetwork
from infra.plan import RegionPlan
from infra.plan.clients import GATE, ClientsPlan
from infra.plan.guardrails import GuardrailsPlan
from infra.plan.names import Names
from infra.plan.project import ProjectPlan
from infra.stack import Gateway


def build_client_keys(
    clients: ClientsPlan | None,
    names: Names,
    project: ProjectPlan,
    after: list[pulumi.Resource],
) -> None:
    """Build the secret with the client keys, if the stack has client teams.

    Args:
        clients: The client teams.
        names: Names of the stack.
        project: Project of the stack.
        after: The clusters: a project has no workload pool, and so no principals, before its first.
    """
    if clients is None:
        return
    reader = principal(project.id, project.number, names.gateway_namespace(), GATE)
    ClientKeys(
        "client-keys",
        assemble.keys_args(clients.settings.key_locations, names, project, [reader]),
        pulumi.ResourceOptions(depends_on=after),
    )


def build_client_gate(
    region: RegionPlan,
    gateway: Gateway,
    guardrails: GuardrailsPlan,
    network: RegionNetwork,
    inside: pulumi.ResourceOptions,
    built: pulumi.Resource,
    guards: list[pulumi.Resource],
) -> None:
    """Build the gate in front of a region's models, if the stack has client teams or Apigee.

    Args:
        region: The region.
        gateway: Settings of its gateway.
        guardrails: Guardrails of the stack.
        network: The network, as the region takes it.
        inside: Options with the cluster's Kubernetes provider and dependencies.
        built: The region's gateway, which an extension names.
        guards: Guardrails, which the gate names.
    """
    if region.apigee is not None:
        managed = assemble.apigee_args(region.apigee, region, network.network, network.subnetwork)
        last = pulumi.ResourceOptions(depends_on=[built])
        ApigeeGate(f"{region.name}-apigee", managed, pulumi.ResourceOptions.merge(inside, last))
    gate = region.gate
    if gate is None:
        return
    identity = WorkloadIdentity(
        f"{region.name}-{GATE}-identity",
        assemble.gate_identity_args(region.names, region.project),
        inside,
    )
    store: CounterStore | None = None
    if gate.clients.has_counters:
        after = pulumi.ResourceOptions(depends_on=[*network.after])
        counters = assemble.store_args(gate.clients, region, network.network, network.subnetwork)
        store = CounterStore(f"{region.name}-counters", counters, after)
    answers: AnswerStore | None = None
    if gate.cache is not None:
        args = assemble.answers_args(
            gate.clients, gate.cache, region, network.network, network.subnetwork
        )
        policy = [] if store is None else [store]
        after = pulumi.ResourceOptions(depends_on=[*network.after, *policy])
        answers = AnswerStore(f"{region.name}-answers", args, after)
    ClientGate(
        f"{region.name}-{GATE}",
        assemble.gate_args(
            gate, region, gateway, armor_calls(guardrails.armor, region), store, answers
        ),
        pulumi.ResourceOptions.merge(
            inside, pulumi.ResourceOptions(depends_on=[identity, built, *guards])
        ),
    )
