"""Delivery from git: the tool that applies the objects of models, and its source."""

from collections.abc import Mapping

import pulumi

from gke_inference.delivery.config_sync import ConfigSync, ConfigSyncArgs, SyncedClusterArgs
from gke_inference.delivery.model_delivery import ModelDelivery, ModelDeliveryArgs
from gke_inference.delivery.settings import DEFAULT_BRANCH
from infra.plan import RegionPlan
from infra.plan.names import resolve_names
from infra.stack import DeliveryKind, DeliverySourceKind, Platform


def sync_clusters(
    platform: Platform,
    clusters: Mapping[str, pulumi.Input[str]],
    after: list[pulumi.Resource],
) -> None:
    """Install the delivery tool, if the platform provides it.

    Args:
        platform: The stack.
        clusters: Ids of its clusters, by region.
        after: Dependencies, deleted later.
    """
    args = config_sync_args(platform, clusters)
    if args is not None:
        ConfigSync("config-sync", args, pulumi.ResourceOptions(depends_on=after))


def deliver(platform: Platform, region: RegionPlan, opts: pulumi.ResourceOptions) -> bool:
    """Set up delivery of a team's models in a region. Return whether they are delivered from git.

    Args:
        platform: The stack, with the settings of its platform.
        region: The region.
        opts: Options of objects in its cluster.
    """
    args = delivery_args(platform, region)
    if args is None:
        return False
    ModelDelivery(f"{region.name}-delivery", args, opts)
    return True


def config_sync_args(
    platform: Platform, clusters: Mapping[str, pulumi.Input[str]]
) -> ConfigSyncArgs | None:
    """Return the arguments of Config Sync, or None if it delivers nothing.

    Args:
        platform: The stack.
        clusters: Ids of the clusters, by region.
    """
    if not platform.has_config_sync():
        return None
    names = resolve_names(platform)
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
        kind=source.kind,
        location=str(source.repo if is_git else source.image),
        namespace=region.namespace,
        tool=delivery.tool,
    )
    if is_git:
        args["branch"] = source.branch or DEFAULT_BRANCH
    if source.secret is not None:
        args["secret"] = source.secret
    return args


def tree_folder(platform: Platform, region: str) -> str:
    """Return the folder of a region's objects in the source of a serving stack."""
    source = platform.delivery.source
    return "/".join(part for part in (source.directory if source else "", region) if part)
