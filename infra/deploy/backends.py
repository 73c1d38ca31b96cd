"""Backends: permissions of the relays, and the relay, endpoints and fallbacks of each region.

The relays in which requests wait for a replica are here, too.
"""

import pulumi

from gke_inference.backends.backend_access import BackendAccess, BackendAccessArgs
from gke_inference.backends.model_backends import ModelBackends, ModelBackendsArgs
from gke_inference.backends.pool_fallback import PoolFallback, PoolFallbackArgs
from gke_inference.backends.settings import (
    BackendSettings,
    TargetFields,
    TargetSettings,
    WaitSettings,
)
from gke_inference.catalogue.names import service_account_email
from gke_inference.cluster.workload_identity import (
    WorkloadIdentity,
    WorkloadIdentityArgs,
    principal,
)
from gke_inference.gateway.settings import ProxyCallersArgs
from infra.deploy.identities import identity_of
from infra.estimate.cold_starts import expected_start_seconds
from infra.plan import RegionPlan, ServedModel
from infra.plan.backends import RELAY, BackendsPlan, fallback_of, has_pool_relay, pool_relay
from infra.plan.cloud_run import RunService
from infra.plan.names import Names
from infra.plan.project import ProjectPlan
from infra.stack import BackendKind, BackendTarget, Gateway


def grant_relay_access(
    backends: BackendsPlan | None,
    names: Names,
    project: ProjectPlan,
    after: list[pulumi.Resource],
) -> None:
    """Build the API key secrets and the roles of relays, if the stack has backends.

    Args:
        backends: Backends of the stack.
        names: Names of the stack.
        project: Project of the stack.
        after: The clusters, because a project has no workload pool, and so no principals, before
            its first; and the Cloud Run services of the stack.
    """
    if backends is None:
        return
    member = principal(project.id, project.number, names.namespace(), RELAY)
    BackendAccess(
        "backends",
        access_args(backends, names, project, member),
        pulumi.ResourceOptions(depends_on=after),
    )


def relay_backends(
    backends: BackendsPlan | None,
    gateway: Gateway,
    region: RegionPlan,
    inside: pulumi.ResourceOptions,
    built: pulumi.Resource,
) -> None:
    """Build the relay of a region, and those in the pools of its models.

    Args:
        backends: Backends of the stack.
        gateway: Settings of the region's gateway.
        region: The region.
        inside: Options with the cluster's Kubernetes provider and dependencies.
        built: The region's gateway, which routes and policies name.
    """
    in_pools = [served for served in region.served if has_pool_relay(served)]
    if backends is None and not in_pools:
        return
    behind = pulumi.ResourceOptions.merge(inside, pulumi.ResourceOptions(depends_on=[built]))
    identity = WorkloadIdentity(
        f"{region.name}-{RELAY}-identity", relay_identity_args(region), behind
    )
    opts = pulumi.ResourceOptions.merge(behind, pulumi.ResourceOptions(depends_on=[identity]))
    if backends is not None:
        ModelBackends(f"{region.name}-{RELAY}", backends_args(backends, gateway, region), opts)
    for served in in_pools:
        args = fallback_args(backends, region, served)
        PoolFallback(f"{region.name}-{args['relay_name']}", args, opts)


def access_args(
    backends: BackendsPlan, names: Names, project: ProjectPlan, principal: pulumi.Input[str]
) -> BackendAccessArgs:
    """Return the arguments of the relays' permissions, which all regions share."""
    args = BackendAccessArgs(
        labels=project.labels,
        principal=principal,
        project=project.id,
        secrets=[names.backend_secret(secret) for secret in backends.secrets],
        vertex_projects=sorted(
            {
                target.project or project.id
                for target in backends.targets
                if target.kind is BackendKind.VERTEX
            }
        ),
    )
    existing = {each.service for each in backends.targets if each.service is not None}
    services = sorted(existing | {each.id for each in backends.services})
    if services:
        args["account_id"] = names.backend_caller()
        args["services"] = services
    return args


def relay_identity_args(region: RegionPlan) -> WorkloadIdentityArgs:
    """Return the arguments of the relay's identity. `BackendAccess` grants its permissions."""
    return identity_of(region.project, region.namespace, RELAY)


def backends_args(
    backends: BackendsPlan, gateway: Gateway, region: RegionPlan
) -> ModelBackendsArgs:
    """Return the arguments of the backends of a region."""
    args = ModelBackendsArgs(
        backends={name: _backend(backends, region, name) for name in backends.settings},
        exposure=gateway.regional_exposure,
        force_usage=backends.forces_usage,
        gateway_name=region.names.gateway(),
        log_percent=gateway.log_percent,
        namespace=region.names.gateway_namespace(),
        relay_name=RELAY,
        replicas=backends.replicas,
        service_account=RELAY,
    )
    if region.has_network_policies:
        args["callers"] = _callers(region)
    if gateway.hostname is not None:
        args["hostname"] = gateway.hostname
    return args


def fallback_args(
    backends: BackendsPlan | None, region: RegionPlan, served: ServedModel
) -> PoolFallbackArgs:
    """Return the arguments of the relay in the pool of a model in a region."""
    args = PoolFallbackArgs(
        engine=served.settings.engine,
        model_name=served.name,
        namespace=served.namespace,
        pool_name=served.object_name,
        relay_name=pool_relay(served.object_name),
        service_account=RELAY,
    )
    fallback = fallback_of(served)
    if fallback is not None and backends is not None:
        price = backends.prices[fallback.backend]
        args["after_queue"] = fallback.after_queue
        args["backend"] = _backend(backends, region, fallback.backend)
        args["force_usage"] = backends.forces_usage
        args["input_usd_per_million"] = price.input_usd_per_million
        args["monthly_usd"] = fallback.monthly_usd
        args["output_usd_per_million"] = price.output_usd_per_million
    limits = served.settings.waits
    if limits is not None:
        args["wait"] = WaitSettings(
            expected_seconds=expected_start_seconds(served),
            requests=limits.requests,
            seconds=limits.seconds,
            timeout_seconds=served.settings.timeout_seconds,
        )
    if region.has_network_policies:
        args["callers"] = _callers(region)
    return args


def _callers(region: RegionPlan) -> ProxyCallersArgs:
    return ProxyCallersArgs(
        metrics_namespace=region.metrics_namespace,
        proxies_cidr=region.settings.proxies,
    )


def _backend(backends: BackendsPlan, region: RegionPlan, name: str) -> BackendSettings:
    backend = backends.settings[name]
    return BackendSettings(
        targets=tuple(
            _target(
                region.names,
                region.project,
                place,
                None if place.deploy is None else backends.service_of(name, at, region.name),
            )
            for at, place in enumerate(backend.places)
        ),
        idle_seconds=backend.idle_seconds,
        timeout_seconds=backend.timeout_seconds,
        context=backends.context,
    )


def _target(
    names: Names, project: ProjectPlan, place: BackendTarget, deployed: RunService | None
) -> TargetSettings:
    fields = {name: getattr(place, name) for name in TargetFields.model_fields}
    if deployed is not None:
        fields |= {"service": deployed.id, "url": deployed.url}
    if place.kind is BackendKind.VERTEX:
        fields["project"] = place.project or project.id
    if place.secret is not None:
        secret = names.backend_secret(place.secret)
        fields["secret"] = f"projects/{project.id}/secrets/{secret}"
    if fields["service"] is not None:
        fields["service_account"] = service_account_email(names.backend_caller(), project.id)
    return TargetSettings(**fields)
