"""Backends: permissions of the relays, and the relay, endpoints and fallbacks of each region."""

import pulumi

from gke_inference.backends.backend_access import BackendAccess, BackendAccessArgs
from gke_inference.backends.model_backends import ModelBackends, ModelBackendsArgs
from gke_inference.backends.pool_fallback import PoolFallback, PoolFallbackArgs
from gke_inference.backends.settings import BackendSettings, TargetFields, TargetSettings
from gke_inference.cluster.workload_identity import (
    WorkloadIdentity,
    WorkloadIdentityArgs,
    principal,
)
from gke_inference.gateway.settings import ProxyCallersArgs
from gke_inference.settings.fields import DEFAULT_CONTEXT
from infra.plan import RegionPlan, ServedModel
from infra.plan.backends import RELAY, fallback_of, has_backends, secrets_of
from infra.plan.clients import gated
from infra.plan.front import has_internal_gateways
from infra.plan.names import resolve_names
from infra.stack import Backend, BackendKind, BackendTarget, Exposure, Platform


def grant_relay_access(platform: Platform, after: list[pulumi.Resource]) -> None:
    """Build the API key secrets and the roles of relays, if the stack has backends.

    Args:
        platform: The stack.
        after: The clusters: a project has no workload pool, and so no principals, before its first.
    """
    if not has_backends(platform):
        return
    member = principal(
        platform.project, str(platform.project_number), resolve_names(platform).namespace(), RELAY
    )
    BackendAccess(
        "backends",
        access_args(platform, member),
        pulumi.ResourceOptions(depends_on=after),
    )


def relay_backends(
    platform: Platform,
    region: RegionPlan,
    inside: pulumi.ResourceOptions,
    gateway: pulumi.Resource,
) -> None:
    """Build the relay of a region, and the fallbacks of its models.

    Args:
        platform: The stack.
        region: The region.
        inside: Options with the cluster's Kubernetes provider and dependencies.
        gateway: The region's gateway, which routes and policies name.
    """
    if not has_backends(platform):
        return
    behind = pulumi.ResourceOptions.merge(inside, pulumi.ResourceOptions(depends_on=[gateway]))
    identity = WorkloadIdentity(
        f"{region.name}-{RELAY}-identity", relay_identity_args(platform), behind
    )
    opts = pulumi.ResourceOptions.merge(behind, pulumi.ResourceOptions(depends_on=[identity]))
    ModelBackends(f"{region.name}-{RELAY}", backends_args(platform, region), opts)
    for served in region.served:
        args = fallback_args(platform, region, served)
        if args is not None:
            PoolFallback(f"{region.name}-{args['relay_name']}", args, opts)


def access_args(platform: Platform, principal: pulumi.Input[str]) -> BackendAccessArgs:
    """Return the arguments of the relays' permissions, which all regions share."""
    names = resolve_names(platform)
    places = [place for backend in platform.backends.values() for place in backend.places]
    args = BackendAccessArgs(
        labels={"env": platform.environment},
        principal=principal,
        project=platform.project,
        secrets=[names.backend_secret(secret) for secret in secrets_of(platform.backends)],
        vertex_projects=sorted(
            {
                place.project or platform.project
                for place in places
                if place.kind is BackendKind.VERTEX
            }
        ),
    )
    services = sorted({place.service for place in places if place.service is not None})
    if services:
        args["account_id"] = names.backend_caller()
        args["services"] = services
    return args


def relay_identity_args(platform: Platform) -> WorkloadIdentityArgs:
    """Return the arguments of the relay's identity. `BackendAccess` grants its permissions."""
    return WorkloadIdentityArgs(
        namespace=resolve_names(platform).namespace(),
        project=platform.project,
        project_number=str(platform.project_number),
        service_account_name=RELAY,
    )


def backends_args(platform: Platform, region: RegionPlan) -> ModelBackendsArgs:
    """Return the arguments of the backends of a region."""
    gateway, names = platform.gateway, resolve_names(platform)
    is_internal = has_internal_gateways(gateway)
    args = ModelBackendsArgs(
        backends={name: _backend(platform, backend) for name, backend in platform.backends.items()},
        exposure=Exposure.INTERNAL if is_internal else Exposure.EXTERNAL,
        force_usage=gated(platform) is not None,
        gateway_name=names.gateway(),
        log_percent=gateway.log_percent,
        namespace=names.gateway_namespace(),
        relay_name=RELAY,
        replicas=3 if platform.protection else 2,
        service_account=RELAY,
    )
    if platform.network_policies:
        args["callers"] = _callers(region)
    if gateway.hostname is not None:
        args["hostname"] = gateway.hostname
    return args


def fallback_args(
    platform: Platform, region: RegionPlan, served: ServedModel
) -> PoolFallbackArgs | None:
    """Return the arguments of a model's fallback in a region, if it has one."""
    fallback = fallback_of(served)
    if fallback is None or platform.clients is None:
        return None
    price = platform.clients.prices[fallback.backend]
    args = PoolFallbackArgs(
        after_queue=fallback.after_queue,
        backend=_backend(platform, platform.backends[fallback.backend]),
        engine=served.settings.engine,
        force_usage=gated(platform) is not None,
        input_usd_per_million=price.input_usd_per_million,
        model_name=served.name,
        monthly_usd=fallback.monthly_usd,
        namespace=served.namespace,
        output_usd_per_million=price.output_usd_per_million,
        pool_name=served.object_name,
        relay_name=f"{RELAY}-{served.object_name}",
        service_account=RELAY,
    )
    if platform.network_policies:
        args["callers"] = _callers(region)
    return args


def _callers(region: RegionPlan) -> ProxyCallersArgs:
    return ProxyCallersArgs(
        metrics_namespace=region.metrics_namespace,
        proxies_cidr=region.settings.proxies,
    )


def _backend(platform: Platform, backend: Backend) -> BackendSettings:
    clients = platform.clients
    return BackendSettings(
        targets=tuple(_target(platform, place) for place in backend.places),
        timeout_seconds=backend.timeout_seconds,
        context=DEFAULT_CONTEXT if clients is None else clients.default_context,
    )


def _target(platform: Platform, place: BackendTarget) -> TargetSettings:
    names = resolve_names(platform)
    found = {name: getattr(place, name) for name in TargetFields.model_fields}
    if place.kind is BackendKind.VERTEX:
        found["project"] = place.project or platform.project
    if place.secret is not None:
        secret = names.backend_secret(place.secret)
        found["secret"] = f"projects/{platform.project}/secrets/{secret}"
    if place.service is not None:
        caller = f"{names.backend_caller()}@{platform.project}.iam.gserviceaccount.com"
        found["service_account"] = caller
    return TargetSettings(**found)
