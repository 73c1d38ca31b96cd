"""Arguments for clients: keys, counters, and the gate of each region."""

from dataclasses import asdict
from typing import TypedDict

import pulumi

from gke_inference.catalogue.engines import engine
from gke_inference.clients.apigee_gate import ApigeeGateArgs
from gke_inference.clients.certificates import ClientCertificatesArgs
from gke_inference.clients.client_keys import ClientKeysArgs
from gke_inference.clients.counter_store import AnswerStore, CounterStore, CounterStoreArgs
from gke_inference.clients.gate_inputs import AnswerCacheArgs, ClientGateArgs, ClientModelArgs
from gke_inference.clients.people import ClientPeopleArgs
from gke_inference.clients.settings import TeamSettings
from gke_inference.cluster.workload_identity import WorkloadIdentityArgs
from gke_inference.namespace.network_policies import ENGINE_PORT
from infra.deploy.guardrails import armor_calls, guarded_models, guards
from infra.plan import RegionPlan
from infra.plan.batches import batches_in
from infra.plan.clients import (
    GATE,
    cached_in,
    cached_names,
    gate_replicas,
    has_counters,
    limits_in,
    store_nodes,
)
from infra.plan.front import forwarded_hops
from infra.plan.names import resolve_names
from infra.stack import (
    AnswerCache,
    Clients,
    ClientTeam,
    Counters,
    Model,
    Platform,
)


def keys_args(
    platform: Platform, clients: Clients, readers: list[pulumi.Input[str]]
) -> ClientKeysArgs:
    """Return the arguments of the secret with the client keys, which all regions share."""
    args = ClientKeysArgs(
        labels={"env": platform.environment},
        project=platform.project,
        readers=readers,
        secret_id=resolve_names(platform).client_keys(),
    )
    if clients.key_locations:
        args["locations"] = list(clients.key_locations)
    return args


def apigee_args(
    platform: Platform,
    region: str,
    network: pulumi.Input[str],
    subnetwork: pulumi.Input[str],
) -> ApigeeGateArgs | None:
    """Return the arguments of the gate that Apigee is in a region, if the stack has it."""
    apigee = None if platform.clients is None else platform.clients.apigee
    if apigee is None:
        return None
    args = ApigeeGateArgs(
        environment=apigee.environment,
        gate_name=resolve_names(platform).apigee(region),
        gateway_name=resolve_names(platform).gateway(),
        location=region,
        namespace=resolve_names(platform).gateway_namespace(),
        network=network,
        products={
            resolve_names(platform).apigee_product(name, region): product
            for name, product in apigee.products.items()
        },
        subnetwork=pulumi.Output.from_input(subnetwork).apply(
            lambda name: (
                name
                if "/" in name
                else f"projects/{platform.project}/regions/{region}/subnetworks/{name}"
            )
        ),
        timeout_ms=apigee.timeout_ms,
    )
    if apigee.proxy is not None:
        args["proxy"] = apigee.proxy
    return args


def gate_identity_args(platform: Platform) -> WorkloadIdentityArgs:
    """Return the arguments of the gate's identity. The global secret grants it read access."""
    return WorkloadIdentityArgs(
        namespace=resolve_names(platform).gateway_namespace(),
        project=platform.project,
        project_number=str(platform.project_number),
        service_account_name=GATE,
    )


def store_args(
    platform: Platform,
    clients: Clients,
    region: str,
    network: pulumi.Input[str],
    subnetwork: pulumi.Input[str],
) -> CounterStoreArgs | None:
    """Return the arguments of a region's counter store, if replicas share counters."""
    if clients.counters is Counters.LOCAL:
        return None
    return CounterStoreArgs(
        existing_policy=not clients.store.make_connection_policy,
        instance_id=resolve_names(platform).counters(),
        node_type=store_nodes(platform, clients),
        protection=platform.protection,  # budgets would start again from zero
        replica_count=clients.store.replicas,
        **_placed(platform, region, network, subnetwork),
    )


def answers_args(
    platform: Platform,
    cache: AnswerCache,
    region: str,
    network: pulumi.Input[str],
    subnetwork: pulumi.Input[str],
) -> CounterStoreArgs:
    """Return the arguments of a region's answer store.

    The network has one connection policy. The counter store creates it; without one, the answer
    store does.
    """
    clients = platform.clients
    has_policy = clients is None or not clients.store.make_connection_policy
    return CounterStoreArgs(
        existing_policy=has_counters(platform) or has_policy,
        instance_id=resolve_names(platform).answers(),
        node_type=cache.store.node_type,
        replica_count=cache.store.replicas,
        **_placed(platform, region, network, subnetwork),
    )


class _Placed(TypedDict):
    """The location of a store, the same for all stores of a region."""

    labels: dict[str, str]
    location: str
    network: pulumi.Input[str]
    project: str
    subnetworks: list[pulumi.Input[str]]


def _placed(
    platform: Platform, region: str, network: pulumi.Input[str], subnetwork: pulumi.Input[str]
) -> _Placed:
    within = f"projects/{platform.project}/regions/{region}/subnetworks"

    def path(subnetwork: str) -> str:
        return subnetwork if "/" in subnetwork else f"{within}/{subnetwork}"

    return _Placed(
        labels={"env": platform.environment},
        location=region,
        network=network,
        project=platform.project,
        subnetworks=[pulumi.Output.from_input(subnetwork).apply(path)],
    )


def gate_args(
    platform: Platform,
    clients: Clients,
    region: RegionPlan,
    store: CounterStore | None,
    answers: AnswerStore | None = None,
) -> ClientGateArgs:
    """Return the arguments of the gate of a region."""
    names = resolve_names(platform)
    args = ClientGateArgs(
        anonymous=clients.anonymous is not None,
        cache_salt_paths=_salted(platform, clients, region),
        contexts=_contexts(platform, clients, region),
        default_context=clients.default_context,
        forwarded_hops=forwarded_hops(platform.gateway),
        gate_name=GATE,
        gateway_name=names.gateway(),
        issuers=list(clients.issuers),
        keys=f"projects/{platform.project}/secrets/{names.client_keys()}",
        models=_models(region),
        namespace=names.gateway_namespace(),
        prices=clients.prices,
        region=region.name,
        replicas=gate_replicas(platform, clients),
        service_account=GATE,
        teams={name: _team(platform, team, region.name) for name, team in clients.teams.items()},
    )
    if store is not None:
        args["store"] = store.address
        args["store_certificates"] = store.certificates
    cache = cached_in(platform, region.name)
    if cache is not None and answers is not None:
        args["cache"] = _cache_args(platform, cache, region, answers)
    if batches_in(platform, region.name) is not None:
        args["batches"] = True
    certificates, published = clients.certificates, platform.regions[region.name].published
    if certificates is not None and published is not None:
        args["certificates"] = ClientCertificatesArgs(
            networks=[published], teams=dict(certificates.teams)
        )
    people = clients.people
    if people is not None and people.backend_service is not None:
        place = f"/projects/{platform.project_number}/global/backendServices"
        args["people"] = ClientPeopleArgs(
            audience=f"{place}/{people.backend_service}", team=people.team
        )
    if calls := armor_calls(platform, region):
        args["armor"] = calls
    if asked := guards(platform):
        args["guards"] = asked
        args["guarded_models"] = guarded_models(platform, region)
    return args


def _cache_args(
    platform: Platform, cache: AnswerCache, region: RegionPlan, answers: AnswerStore
) -> AnswerCacheArgs:
    """Return the arguments of a region's answer cache."""
    (model,) = [one for one in region.served if one.name == cache.embeddings]
    return AnswerCacheArgs(
        embeddings_model=cache.embeddings,
        # a model without a picker has a Service instead of a pool
        embeddings_url=f"http://{model.object_name}.{model.namespace}.svc:{ENGINE_PORT}",
        models=cached_names(platform, cache),
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


def _contexts(platform: Platform, clients: Clients, region: RegionPlan) -> dict[str, int]:
    """Return the contexts of the region's models of text, by each name that clients may request.

    The backend of a fallback can have a longer one than the model.
    """
    return {
        name: model.context
        if model.fallback is None
        else max(model.context, clients.default_context)
        for served, model in platform.models_in(region.name).items()
        if not model.task.is_diffusion
        for name in (served, *model.other_names(served))
    }


def _salted(platform: Platform, clients: Clients, region: RegionPlan) -> dict[str, list[str]]:
    """Return the paths on which engines separate teams, by each name of their model."""
    if clients.shared_prefix_cache:
        return {}
    return {
        name: paths
        for served, model in platform.models_in(region.name).items()
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


def _team(platform: Platform, team: ClientTeam, region: str) -> TeamSettings:
    """Return a team with its limits in a region."""
    shared = {name: getattr(team, name) for name in TeamSettings.model_fields}
    return TeamSettings(**shared | asdict(limits_in(platform, team, region)))
