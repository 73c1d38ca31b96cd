"""Wires what teams share in a region: a namespace and a quota of the cluster for each team."""

from collections.abc import Mapping

import pulumi

from gke_inference.namespace.serving_namespace import ServingNamespace
from gke_inference.namespace.team_share import TeamShare
from infra.arguments import sharing as assemble
from infra.plan import RegionPlan
from infra.stack import Platform


def share(
    platform: Platform,
    region: RegionPlan,
    buckets: Mapping[str, pulumi.Input[str]],
    inside: pulumi.ResourceOptions,
) -> list[pulumi.Resource]:
    """Build the namespaces of the teams in a region, and return them.

    Args:
        platform: The stack.
        region: The region.
        buckets: Names of the region's buckets, by role.
        inside: Options of objects in its cluster.
    """
    made: list[pulumi.Resource] = []
    for team in platform.teams:
        args = assemble.team_namespace_args(platform, region, team)
        namespace = ServingNamespace(f"{region.name}-{team}", args, inside)
        behind = pulumi.ResourceOptions(depends_on=[namespace])
        given = assemble.team_share_args(platform, region, team, buckets)
        opts = pulumi.ResourceOptions.merge(inside, behind)
        made += [namespace, TeamShare(f"{region.name}-{team}-share", given, opts)]
    return made
