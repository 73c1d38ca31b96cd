"""Wires delivery from git: what reads the objects of models, and where from."""

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
    """Install what delivers, where the platform brings it.

    Args:
        platform: The stack.
        clusters: Ids of its clusters, by region.
        after: What must be there before, and go later.
    """
    args = assemble.config_sync_args(platform, clusters)
    if args is not None:
        ConfigSync("config-sync", args, pulumi.ResourceOptions(depends_on=after))


def deliver(platform: Platform, region: RegionPlan, opts: pulumi.ResourceOptions) -> bool:
    """Have the models of a team in a region delivered, and return whether they are.

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
