"""What teams share in a region: a namespace, a quota and a bucket for each, and routes."""

from collections.abc import Mapping

import pulumi

from gke_inference.cluster.workload_identity import BucketAccessArgs
from gke_inference.gateway.inference_gateway import RouteSourceArgs
from gke_inference.namespace.serving_namespace import ServingNamespace, ServingNamespaceArgs
from gke_inference.namespace.team_share import TeamShare, TeamShareArgs
from infra.deploy.ingress import ingress_args
from infra.plan import RegionPlan
from infra.stack import DeliveryKind, DeliveryTool, Platform


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
        args = team_namespace_args(platform, region, team)
        namespace = ServingNamespace(f"{region.name}-{team}", args, inside)
        behind = pulumi.ResourceOptions(depends_on=[namespace])
        given = team_share_args(platform, region, team, buckets)
        opts = pulumi.ResourceOptions.merge(inside, behind)
        made += [namespace, TeamShare(f"{region.name}-{team}-share", given, opts)]
    return made


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
