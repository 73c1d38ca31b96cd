"""Wires delivery from git: the tool that applies the objects of models, and its source."""

from collections.abc import Mapping

import pulumi

from gke_inference.delivery.config_sync import ConfigSync
from gke_inference.delivery.model_delivery import ModelDelivery
from infra.arguments import sharing as assemble
from infra.plan import RegionPlan
from infra.stack import Platform


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
    args = assemble.config_sync_args(platform, clusters)
    if args is not None:
        ConfigSync("config-sync", args, pulumi.ResourceOptions(depends_on=after))


def deliver(platform: Platform, region: RegionPlan, opts: pulumi.ResourceOptions) -> bool:
    """Set up delivery of a team's models in a region. Return whether they are delivered from git.

    Args:
        platform: The stack, with the settings of its platform.
        region: The region.
        opts: Options of objects in its cluster.
    """
    args = assemble.delivery_args(platform, region)
    if args is None:
        return False
    ModelDelivery(f"{region.name}-delivery", args, opts)
    return True
