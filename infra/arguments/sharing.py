"""Arguments for what teams share: namespaces, quotas, buckets, and routes to one gateway."""

from collections.abc import Mapping

import pulumi

from gke_inference.cluster.workload_identity import BucketAccessArgs
from gke_inference.delivery.config_sync import ConfigSyncArgs, SyncedClusterArgs
from gke_inference.delivery.model_delivery import ModelDeliveryArgs
from gke_inference.gateway.inference_gateway import RouteSourceArgs
from gke_inference.gateway.model_routes import ModelRoutesArgs
from gke_inference.namespace.serving_namespace import ServingNamespaceArgs
from gke_inference.namespace.team_share import TeamShareArgs
from gke_inference.serving.model_server import ModelServer
from infra.arguments.ingress import ingress_args
from infra.arguments.models import routed_models
from infra.plan import RegionPlan
from infra.plan.delivery import has_config_sync
from infra.plan.endpoint import catalogue_path
from infra.plan.names import Names
from infra.stack import DeliveryKind, DeliverySourceKind, DeliveryTool, Platform


def team_namespace_args(platform: Platform, region: RegionPlan, team: str) -> ServingNamespaceArgs:
    """Return the arguments of a team's namespace."""
    level = "privileged" if platform.teams[team].privileged else "baseline"
    args = ServingNamespaceArgs(namespace=team, pod_security=level)
    if platform.network_policies:
        args["ingress"] = ingress_args(platform, region, has_gateway=False)
    return args


def team_share_args(
    platform: Platform, region: RegionPlan, team: str, buckets: Mapping[str, pulumi.Input[str]]
) -> TeamShareArgs:
    """Return the arguments of a team's share of a cluster.

    Args:
        platform: The stack.
        region: Region of the cluster.
        team: Name of the team.
        buckets: Names of the region's buckets, by role.
    """
    settings = platform.teams[team]
    access = {
        "caches": BucketAccessArgs(access="write", bucket=buckets[caches_role(team)]),
        "models": BucketAccessArgs(access="read", bucket=buckets["models"]),
    }
    if region.name == min(platform.regions):
        access |= {name: BucketAccessArgs(access="read", bucket=name) for name in settings.buckets}
    args = TeamShareArgs(
        bucket_roles=access,
        gpu_chips=settings.chips.gpu,
        namespace=team,
        project=platform.project,
        project_number=str(platform.project_number),
        tpu_chips=settings.chips.tpu,
    )
    if platform.delivery.kind is DeliveryKind.GITOPS:
        args["delivery"] = (platform.delivery.tool or DeliveryTool.CONFIG_SYNC).value
    if settings.deployers:
        args["deployers"] = list(settings.deployers)
    return args


def caches_role(team: str) -> str:
    """Return the role of a team's cache bucket among a region's buckets."""
    return f"caches-{team}"


def route_sources(platform: Platform) -> list[RouteSourceArgs]:
    """Return the namespaces whose routes may attach to the gateway."""
    found: list[RouteSourceArgs] = []
    for name, team in platform.teams.items():
        source = RouteSourceArgs(namespace=name)
        if team.hostname is not None:
            source["hostname"] = team.hostname
        found.append(source)
    return found


def model_routes_args(
    platform: Platform, region: RegionPlan, servers: Mapping[str, ModelServer]
) -> ModelRoutesArgs:
    """Return the arguments of a team's models behind the gateway of a region."""
    gateway, names = platform.gateway, Names(platform)
    args = ModelRoutesArgs(
        catalogue_path=catalogue_path(platform),
        exposure=gateway.exposure.value,
        gateway_name=names.gateway(),
        gateway_namespace=names.gateway_namespace(),
        log_percent=gateway.log_percent,
        models=routed_models(region, servers),
        namespace=names.namespace(),
        picker_replicas=gateway.picker_replicas or (2 if platform.protection else 1),
        router_replicas=gateway.router_replicas or (3 if platform.protection else 2),
    )
    if gateway.fairness is not None:
        args["fairness_wait_seconds"] = gateway.fairness.max_wait_seconds
    if gateway.hostname is not None:
        args["hostname"] = gateway.hostname
    return args


def config_sync_args(
    platform: Platform, clusters: Mapping[str, pulumi.Input[str]]
) -> ConfigSyncArgs | None:
    """Return the arguments of Config Sync, or None if it delivers nothing.

    Args:
        platform: The stack.
        clusters: Ids of the clusters, by region.
    """
    if not has_config_sync(platform):
        return None
    names = Names(platform)
    return ConfigSyncArgs(
        clusters={
            region: SyncedClusterArgs(
                cluster_id=cluster, location=region, membership=names.cluster(region)
            )
            for region, cluster in clusters.items()
        },
        labels={"env": platform.environment},
        project=platform.project,
    )


def delivery_args(platform: Platform, region: RegionPlan) -> ModelDeliveryArgs | None:
    """Return the source of a team's models in a region, or None if Pulumi applies them."""
    delivery, source = platform.delivery, platform.delivery.source
    if delivery.kind is not DeliveryKind.GITOPS or source is None or delivery.tool is None:
        return None
    is_git = source.kind is DeliverySourceKind.GIT
    args = ModelDeliveryArgs(
        directory=tree_folder(platform, region.name),
        kind=source.kind.value,
        location=str(source.repo if is_git else source.image),
        namespace=region.namespace,
        tool=delivery.tool.value,
    )
    if is_git:
        args["branch"] = source.branch or "main"
    if source.secret is not None:
        args["secret"] = source.secret
    return args


def tree_folder(platform: Platform, region: str) -> str:
    """Return the folder of a region's objects in the source of a serving stack."""
    source = platform.delivery.source
    return "/".join(part for part in (source.directory if source else "", region) if part)
