"""Delivery from git: the tool that applies the objects of models, and its source."""

from collections.abc import Mapping

import pulumi

from gke_inference.delivery.config_sync import ConfigSync, ConfigSyncArgs, SyncedClusterArgs
from gke_inference.delivery.model_delivery import ModelDelivery, ModelDeliveryArgs
from gke_inference.delivery.settings import DEFAULT_BRANCH
from infra.plan import RegionPlan
from infra.plan.names import Names
from infra.plan.project import ProjectPlan
from infra.stack import Delivery, DeliverySourceKind


def sync_clusters(
    names: Names,
    project: ProjectPlan,
    clusters: Mapping[str, pulumi.Input[str]],
    after: list[pulumi.Resource],
) -> None:
    """Install the delivery tool that the platform provides.

    Args:
        names: Names of the stack.
        project: Project of the stack.
        clusters: Ids of its clusters, by region.
        after: Dependencies, deleted later.
    """
    args = config_sync_args(names, project, clusters)
    ConfigSync("config-sync", args, pulumi.ResourceOptions(depends_on=after))


def deliver(delivery: Delivery, region: RegionPlan, opts: pulumi.ResourceOptions) -> bool:
    """Set up delivery of a team's models in a region. Return whether they are delivered from git.

    Args:
        delivery: Settings of the serving stack, with the tool of its platform.
        region: The region.
        opts: Options of objects in its cluster.
    """
    args = delivery_args(delivery, region)
    if args is None:
        return False
    ModelDelivery(f"{region.name}-delivery", args, opts)
    return True


def config_sync_args(
    names: Names, project: ProjectPlan, clusters: Mapping[str, pulumi.Input[str]]
) -> ConfigSyncArgs:
    """Return the arguments of Config Sync.

    Args:
        names: Names of the stack.
        project: Project of the stack.
        clusters: Ids of the clusters, by region.
    """
    return ConfigSyncArgs(
        clusters={
            region: SyncedClusterArgs(
                cluster_id=cluster, location=region, membership=names.cluster(region)
            )
            for region, cluster in clusters.items()
        },
        labels=project.labels,
        project=project.id,
    )


def delivery_args(delivery: Delivery, region: RegionPlan) -> ModelDeliveryArgs | None:
    """Return the source of a team's models in a region, or None if Pulumi applies them."""
    source, tool = delivery.source, delivery.applied_with
    if source is None or tool is None:
        return None
    is_git = source.kind is DeliverySourceKind.GIT
    args = ModelDeliveryArgs(
        directory=tree_folder(delivery, region.name),
        kind=source.kind,
        location=str(source.repo if is_git else source.image),
        namespace=region.namespace,
        tool=tool,
    )
    if is_git:
        args["branch"] = source.branch or DEFAULT_BRANCH
    if source.secret is not None:
        args["secret"] = source.secret
    return args


def tree_folder(delivery: Delivery, region: str) -> str:
    """Return the folder of a region's objects in the source of a serving stack."""
    source = delivery.source
    return "/".join(part for part in (source.directory if source else "", region) if part)
