"""Arguments for clients: keys, counters, and the gate of each region."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict

import pulumi

from gke_inference.catalogue.engines import engine
from gke_inference.clients.apigee_apps import ApigeeAppsArgs
from gke_inference.clients.apigee_gate import ApigeeGateArgs
from gke_inference.clients.certificates import ClientCertificatesArgs
from gke_inference.clients.client_keys import ClientKeysArgs
from gke_inference.clients.counter_store import AnswerStore, CounterStore, CounterStoreArgs
from gke_inference.clients.gate_inputs import AnswerCacheArgs, ClientGateArgs, ClientModelArgs
from gke_inference.clients.people import ClientPeopleArgs
from gke_inference.clients.settings import ApigeeApp
from gke_inference.cluster.workload_identity import WorkloadIdentityArgs
from gke_inference.guardrails.armor_calls import ArmorCallArgs
from gke_inference.namespace.network_policies import ENGINE_PORT
from infra.deploy.guardrails import guarded_models, guards
from infra.deploy.identities import identity_of
from infra.plan import RegionPlan
from infra.plan.clients import GATE, ClientsPlan, GatePlan
from infra.plan.names import Names
from infra.plan.project import ProjectPlan
from infra.stack import AnswerCache, Apigee, Gateway, Model


def keys_args(
    locations: Sequence[str],
    names: Names,
    project: ProjectPlan,
    readers: list[pulumi.Input[str]],
) -> ClientKeysArgs:
    """Return the arguments of the secret with the client keys, which all regions share.

    Args:
        locations: Regions that store it; none: Google chooses them.
        names: Names of the stack.
        project: Project of the stack.
        readers: Principals of the gates.
    """
    args = ClientKeysArgs(
        labels=project.labels,
        project=project.id,
        readers=readers,
        secret_id=names.client_keys(),
    )
    if locations:
        args["locations"] = list(locations)
    return args


def apigee_args(
    apigee: Apigee,
    region: RegionPlan,
    network: pulumi.Input[str],
    subnetwork: pulumi.Input[str],
) -> ApigeeGateArgs:
    """Return the arguments of the gate that Apigee is in a region."""
    names = region.names
    args = ApigeeGateArgs(
        environment=apigee.environment,
        gate_name=names.apigee(region.name),
        gateway_name=names.gateway(),
        location=region.name,
        namespace=names.gateway_namespace(),
        network=network,
        products={
            names.apigee_product(name, region.name): product
            for name, product in apigee.products.items()
        },
        subnetwork=_subnetwork_path(region, subnetwork),
        timeout_ms=apigee.timeout_ms,
    )
    if apigee.proxy is not None:
        args["proxy"] = apigee.proxy
    return args


def apigee_apps_args(
    apigee: Apigee, names: Names, project: ProjectPlan, regions: Iterable[str]
) -> ApigeeAppsArgs:
    """Return the arguments of the apps, each with its products in every region."""
    return ApigeeAppsArgs(
        apps={
            names.apigee_app(name): ApigeeApp(
                developer=app.developer,
                products=tuple(
                    names.apigee_product(product, region)
                    for product in app.products
                    for region in regions
                ),
            )
            for name, app in apigee.apps.items()
        },
        project=project.id,
    )


def gate_identity_args(names: Names, project: ProjectPlan) -> WorkloadIdentityArgs:
    """Return the arguments of the gate's identity. The global secret grants it read access."""
    return identity_of(project, names.gateway_namespace(), GATE)


def store_args(
    clients: ClientsPlan,
    region: RegionPlan,
    network: pulumi.Input[str],
    subnetwork: pulumi.Input[str],
) -> CounterStoreArgs:
    """Return the arguments of a region's counter store, which replicas share."""
    store = clients.settings.store
    return CounterStoreArgs(
        existing_policy=not store.make_connection_policy,
        instance_id=region.names.counters(),
        node_type=clients.store_nodes,
        protection=region.project.is_protected,  # budgets would start again from zero
        replica_count=store.replicas,
        **_placed(region, network, subnetwork),
    )


def answers_args(
    clients: ClientsPlan,
    cache: AnswerCache,
    region: RegionPlan,
    network: pulumi.Input[str],
    subnetwork: pulumi.Input[str],
) -> CounterStoreArgs:
    """Return the arguments of a region's answer store.

    The network has one connection policy. The counter store creates it; without one, the answer
    store does.
    """
    has_policy = not clients.settings.store.make_connection_policy
    return CounterStoreArgs(
        existing_policy=clients.has_counters or has_policy,
        instance_id=region.names.answers(),
        node_type=cache.store.node_type,
        replica_count=cache.store.replicas,
        **_placed(region, network, subnetwork),
    )


class _Placed(TypedDict):
    """The location of a store, the same for all stores of a region."""

    labels: dict[str, str]
    location: str
    network: pulumi.Input[str]
    project: str
    subnetworks: list[pulumi.Input[str]]


def _placed(
    region: RegionPlan, network: pulumi.Input[str], subnetwork: pulumi.Input[str]
) -> _Placed:
    return _Placed(
        labels=region.project.labels,
        location=region.name,
        network=network,
        project=region.project.id,
        subnetworks=[_subnetwork_path(region, subnetwork)],
    )


def _subnetwork_path(region: RegionPlan, subnetwork: pulumi.Input[str]) -> pulumi.Output[str]:
    """Return the path of a subnet of the region, given by name or path."""
    within = f"projects/{region.project.id}/regions/{region.name}/subnetworks"
    return pulumi.Output.from_input(subnetwork).apply(
        lambda name: name if "/" in name else f"{within}/{name}"
    )


def gate_args(
    gate: GatePlan,
    region: RegionPlan,
    gateway: Gateway,
    calls: list[ArmorCallArgs],
    store: CounterStore | None = None,
    answers: AnswerStore | None = None,
) -> ClientGateArgs:
    """Return the arguments of the gate of a region.

    Args:
        gate: The gate.
        region: The region.
        gateway: Settings of the region's gateway.
        calls: Calls of Model Armor, which the gateway makes in the same extension.
        store: Store of counters, if replicas share them.
        answers: Store of answers, if there is a cache.
    """
    clients, names = gate.clients.settings, region.names
    args = ClientGateArgs(
        anonymous=clients.anonymous is not None,
        cache_salt_paths={} if clients.shared_prefix_cache else _salted(region.models),
        contexts=_contexts(region.models, clients.default_context),
        default_context=clients.default_context,
        forwarded_hops=gateway.forwarded_hops,
        gate_name=GATE,
        gateway_name=names.gateway(),
        issuers=list(clients.issuers),
        keys=f"projects/{region.project.id}/secrets/{names.client_keys()}",
        models=_models(region),
        namespace=names.gateway_namespace(),
        prices=clients.prices,
        region=region.name,
        replicas=gate.clients.replicas,
        service_account=GATE,
        teams=dict(gate.teams),
    )
    if gateway.fairness is not None and gateway.fairness.sessions is not None:
        args["session_headers"] = list(gateway.fairness.sessions.headers)
    if clients.stream_idle_seconds is not None:
        args["stream_idle_seconds"] = clients.stream_idle_seconds
    if gate.clients.replaced:
        args["replaced_models"] = {team: list(of) for team, of in gate.clients.replaced.items()}
    if store is not None:
        args["store"] = store.address
        args["store_certificates"] = store.certificates
    if gate.cache is not None and answers is not None:
        args["cache"] = _cache_args(gate.cache, gate.clients.cached_names, region, answers)
    if region.batches is not None:
        args["batches"] = True
    certificates, published = clients.certificates, region.settings.published
    if certificates is not None and published is not None:
        args["certificates"] = ClientCertificatesArgs(
            networks=[published], teams=dict(certificates.teams)
        )
    people = clients.people
    if people is not None and people.backend_service is not None:
        place = f"/projects/{region.project.number}/global/backendServices"
        args["people"] = ClientPeopleArgs(
            audience=f"{place}/{people.backend_service}", team=people.team
        )
    if calls:
        args["armor"] = calls
    if gate.guards:
        args["guards"] = guards(gate.guards, names.gateway_namespace())
        args["guarded_models"] = guarded_models(gate.guards, region.models)
    return args


def _cache_args(
    cache: AnswerCache, names: Sequence[str], region: RegionPlan, answers: AnswerStore
) -> AnswerCacheArgs:
    """Return the arguments of a region's answer cache."""
    (model,) = [one for one in region.served if one.name == cache.embeddings]
    return AnswerCacheArgs(
        embeddings_model=cache.embeddings,
        # a model without a picker has a Service instead of a pool
        embeddings_url=f"http://{model.object_name}.{model.namespace}.svc:{ENGINE_PORT}",
        models=list(names),
        store=answers.address,
        store_certificates=answers.certificates,
        threshold=cache.threshold,
        ttl_seconds=cache.ttl_seconds,
    )


def _models(region: RegionPlan) -> dict[str, ClientModelArgs]:
    """Return the models of a region that have objectives. Pickers read only prompts."""
    return {
        served.name: ClientModelArgs(
            adapters=list(served.settings.adapter_names(served.name)), pool_name=served.object_name
        )
        for served in region.served
        if served.version is None and served.settings.task.value == "generate"
    }


def _contexts(models: Mapping[str, Model], default: int) -> dict[str, int]:
    """Return the contexts of models of text, by each name that clients may request.

    The backend of a fallback can have a longer one than the model.
    """
    return {
        name: model.context if model.fallback is None else max(model.context, default)
        for served, model in models.items()
        if model.task.is_text
        for name in (served, *model.other_names(served))
    }


def _salted(models: Mapping[str, Model]) -> dict[str, list[str]]:
    """Return the paths on which engines separate teams, by each name of their model."""
    return {
        name: paths
        for served, model in models.items()
        if (paths := salted_paths(model))
        for name in (served, *model.other_names(served))
    }


def salted_paths(model: Model) -> list[str]:
    """Return the paths on which a model's engine takes a salt for its prefix cache.

    A canary gets a share of the same requests, so its engine must take it as well.
    """
    paths = set(engine(model.engine).cache_salt)
    if model.canary is not None and model.canary.engine is not None:
        paths &= set(engine(model.canary.engine).cache_salt)
    return sorted(paths)
