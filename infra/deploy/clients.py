"""Wires clients: the keys that all regions share, and the gate and stores of each region."""

from collections.abc import Mapping

import pulumi

from gke_inference.clients.apigee_apps import ApigeeApps
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
from infra.stack import Apigee, Gateway


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


def build_apigee_gate(
    region: RegionPlan,
    network: RegionNetwork,
    inside: pulumi.ResourceOptions,
) -> ApigeeGate | None:
    """Let Apigee check the requests of a region, if the stack has it.

    Args:
        region: The region.
        network: The network, as the region takes it.
        inside: Options with the cluster's Kubernetes provider and dependencies.
    """
    if region.apigee is None:
        return None
    args = assemble.apigee_args(region.apigee, region, network.network, network.subnetwork)
    return ApigeeGate(f"{region.name}-apigee", args, inside)


def build_apigee_apps(
    apigee: Apigee | None, names: Names, project: ProjectPlan, gates: Mapping[str, ApigeeGate]
) -> pulumi.Output[dict[str, str]] | None:
    """Build the developers and apps of a stack with Apigee; return the keys by app, if any.

    Args:
        apigee: Settings of Apigee.
        names: Names of the stack.
        project: Project of the stack.
        gates: What creates the API products, by region.
    """
    if apigee is None or not apigee.apps or not gates:
        return None
    args = assemble.apigee_apps_args(apigee, names, project, gates)
    after = pulumi.ResourceOptions(depends_on=list(gates.values()))
    return ApigeeApps("apigee-apps", args, after).keys


def build_client_gate(
    region: RegionPlan,
    gateway: Gateway,
    guardrails: GuardrailsPlan,
    network: RegionNetwork,
    inside: pulumi.ResourceOptions,
    guards: list[pulumi.Resource],
) -> list[pulumi.Resource]:
    """Build and return the gate of a region's models, if the stack has client teams.

    Its extension names a Gateway that does not exist yet.

    Args:
        region: The region.
        gateway: Settings of its gateway.
        guardrails: Guardrails of the stack.
        network: The network, as the region takes it.
        inside: Options with the cluster's Kubernetes provider and dependencies.
        guards: Guardrails, which the gate names.
    """
    gate = region.gate
    if gate is None:
        return []
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
    built = ClientGate(
        f"{region.name}-{GATE}",
        assemble.gate_args(
            gate, region, gateway, armor_calls(guardrails.armor, region), store, answers
        ),
        pulumi.ResourceOptions.merge(
            inside, pulumi.ResourceOptions(depends_on=[identity, *guards])
        ),
    )
    return [built]
