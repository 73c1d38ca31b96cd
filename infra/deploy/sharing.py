"""What teams share in a region: a namespace, a quota and a bucket for each, and routes."""

from collections.abc import Iterable, Mapping

import pulumi

from gke_inference.cluster.workload_identity import BucketAccessArgs
from gke_inference.gateway.inference_gateway import RouteSourceArgs
from gke_inference.namespace.network_policies import AllowedIngressArgs
from gke_inference.namespace.serving_namespace import ServingNamespace, ServingNamespaceArgs
from gke_inference.namespace.team_share import TeamShare, TeamShareArgs
from infra.deploy.ingress import ingress_args
from infra.plan import RegionPlan
from infra.plan.project import ProjectPlan
from infra.stack import Delivery, Platform, Team


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
    resources: list[pulumi.Resource] = []
    ingress = ingress_args(region, has_gateway=False) if region.has_network_policies else None
    is_first = region.name == min(platform.regions)
    for team, settings in platform.teams.items():
        args = team_namespace_args(team, settings, ingress)
        namespace = ServingNamespace(f"{region.name}-{team}", args, inside)
        behind = pulumi.ResourceOptions(depends_on=[namespace])
        read = settings.buckets if is_first else ()
        share_args = team_share_args(
            region.project, platform.delivery, team, settings, buckets, read
        )
        opts = pulumi.ResourceOptions.merge(inside, behind)
        resources += [namespace, TeamShare(f"{region.name}-{team}-share", share_args, opts)]
    return resources


def team_namespace_args(
    team: str, settings: Team, ingress: AllowedIngressArgs | None
) -> ServingNamespaceArgs:
    """Return the arguments of a team's namespace."""
    level = "privileged" if settings.privileged else "baseline"
    args = ServingNamespaceArgs(namespace=team, pod_security=level)
    if ingress is not None:
        args["ingress"] = ingress
    return args


def team_share_args(
    project: ProjectPlan,
    delivery: Delivery,
    team: str,
    settings: Team,
    buckets: Mapping[str, pulumi.Input[str]],
    read: Iterable[str],
) -> TeamShareArgs:
    """Return the arguments of a team's share of a cluster.

    Args:
        project: Project of the stack.
        delivery: How the objects of models are applied.
        team: Name of the team.
        settings: Its settings.
        buckets: Names of the region's buckets, by role.
        read: Other buckets that it may read, granted in the first region only: its principals are
            the same in every cluster.
    """
    access = {
        "caches": BucketAccessArgs(access="write", bucket=buckets[caches_role(team)]),
        "models": BucketAccessArgs(access="read", bucket=buckets["models"]),
    }
    access |= {name: BucketAccessArgs(access="read", bucket=name) for name in read}
    args = TeamShareArgs(
        bucket_roles=access,
        gpu_chips=settings.chips.gpu,
        namespace=team,
        project=project.id,
        project_number=project.number,
        tpu_chips=settings.chips.tpu,
    )
    if delivery.applied_with is not None:
        args["delivery"] = delivery.applied_with.value
    if settings.deployers:
        args["deployers"] = list(settings.deployers)
    return args


def caches_role(team: str) -> str:
    """Return the role of a team's cache bucket among a region's buckets."""
    return f"caches-{team}"


def route_sources(teams: Mapping[str, Team]) -> list[RouteSourceArgs]:
    """Return the namespaces whose routes may attach to the gateway."""
    sources: list[RouteSourceArgs] = []
    for name, team in teams.items():
        source = RouteSourceArgs(namespace=name)
        if team.hostname is not None:
            source["hostname"] = team.hostname
        sources.append(source)
    return sources
