"""The translator of clients: keys, counters, and the gate of each region."""

from typing import Final

import pulumi

from gke_inference.clients.client_keys import ClientKeysArgs
from gke_inference.clients.counter_store import CounterStoreArgs
from gke_inference.clients.settings import (
    ClientGateArgs,
    ClientModelArgs,
    ClientTeamArgs,
    TokenIssuerArgs,
    TokenPriceArgs,
)
from gke_inference.cluster.workload_identity import WorkloadIdentityArgs
from infra.plan import RegionPlan
from infra.plan.clients import gate_replicas, store_nodes
from infra.plan.names import Names
from infra.stack import Clients, ClientTeam, Counters, Platform, TokenIssuer

GATE: Final = "client-gate"
"""Name of the gate's objects and of its service account, the same in every cluster."""


def keys_args(
    platform: Platform, clients: Clients, readers: list[pulumi.Input[str]]
) -> ClientKeysArgs:
    """Return the arguments of the secret of the keys, which all regions share."""
    args = ClientKeysArgs(
        labels={"env": platform.environment},
        project=platform.project,
        readers=readers,
        secret_id=Names(platform).client_keys(),
    )
    if clients.key_locations:
        args["locations"] = list(clients.key_locations)
    return args


def gate_identity_args(platform: Platform) -> WorkloadIdentityArgs:
    """Return the arguments of the gate's identity; the secret, which is global, lets it read."""
    return WorkloadIdentityArgs(
        namespace=Names(platform).gateway_namespace(),
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
    """Return the arguments of a region's counters, where replicas share them."""
    if clients.counters is Counters.LOCAL:
        return None
    store = clients.store
    within = f"projects/{platform.project}/regions/{region}/subnetworks"

    def path(subnetwork: str) -> str:
        return subnetwork if "/" in subnetwork else f"{within}/{subnetwork}"

    return CounterStoreArgs(
        existing_policy=not store.make_connection_policy,
        instance_id=Names(platform).counters(),
        labels={"env": platform.environment},
        location=region,
        network=network,
        node_type=store_nodes(platform, clients).value.upper().replace("-", "_"),
        project=platform.project,
        replica_count=store.replicas,
        subnetworks=[pulumi.Output.from_input(subnetwork).apply(path)],
    )


def gate_args(
    platform: Platform,
    clients: Clients,
    region: RegionPlan,
    store: pulumi.Input[str] | None,
) -> ClientGateArgs:
    """Return the arguments of the gate of a region."""
    names = Names(platform)
    args = ClientGateArgs(
        anonymous=clients.anonymous is not None,
        gate_name=GATE,
        gateway_name=names.gateway(),
        issuers=[_issuer(issuer) for issuer in clients.issuers],
        keys=f"projects/{platform.project}/secrets/{names.client_keys()}",
        models=_models(region),
        namespace=names.gateway_namespace(),
        prices={
            name: TokenPriceArgs(
                input_usd_per_million=price.input_usd_per_million,
                output_usd_per_million=price.output_usd_per_million,
            )
            for name, price in clients.prices.items()
        },
        region=region.name,
        replicas=gate_replicas(platform, clients),
        service_account=GATE,
        teams={name: _team(team) for name, team in clients.teams.items()},
    )
    if store is not None:
        args["store"] = store
    return args


def _models(region: RegionPlan) -> dict[str, ClientModelArgs]:
    """Return the models of a region that have objectives: a picker reads prompts only."""
    return {
        served.name: ClientModelArgs(
            adapters=list(served.settings.adapters), pool_name=served.object_name
        )
        for served in region.served
        if served.version is None and served.settings.task.value == "generate"
    }


def _team(team: ClientTeam) -> ClientTeamArgs:
    args = ClientTeamArgs(priority=team.priority.value)
    if team.models is not None:
        args["models"] = list(team.models)
    if team.monthly_usd is not None:
        args["monthly_usd"] = team.monthly_usd
    if team.requests_per_minute is not None:
        args["requests_per_minute"] = team.requests_per_minute
    if team.tokens_per_minute is not None:
        args["tokens_per_minute"] = team.tokens_per_minute
    if team.tokens_per_month is not None:
        args["tokens_per_month"] = team.tokens_per_month
    return args


def _issuer(issuer: TokenIssuer) -> TokenIssuerArgs:
    return TokenIssuerArgs(
        audiences=list(issuer.audiences),
        claim=issuer.claim,
        header=issuer.header,
        issuer=issuer.issuer,
        jwks_uri=issuer.jwks_uri,
        teams=dict(issuer.teams),
    )
