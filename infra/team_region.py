"""Wires a team's models in one region of a platform that another stack deploys."""

import pulumi

from gke_inference.gateway.model_routes import ModelRoutes
from gke_inference.namespace.connected_models import ConnectedModels, ConnectedModelsArgs
from infra.arguments import sharing as assemble
from infra.arguments.ingress import connected
from infra.delivery import deliver
from infra.options.inside import inside
from infra.plan import RegionPlan
from infra.plan.names import Names
from infra.platform_reference import SharedRegion
from infra.serving import open_models, serve
from infra.stack import Platform


def build_team_region(
    platform: Platform,
    region: RegionPlan,
    shared: SharedRegion,
    *,
    with_delivered: bool = False,
) -> None:
    """Build a team's models in a region, and their routes to the existing gateway.

    Args:
        platform: The stack, with the settings of its platform.
        region: The region, resolved.
        shared: The region in the platform's record.
        with_delivered: Whether to also build objects delivered from git.
    """
    if not region.served:
        return
    opts = inside(platform, region, shared.kubeconfig)
    if deliver(platform, region, opts) and not with_delivered:
        return
    buckets: dict[str, pulumi.Input[str]] = {
        role: Names(platform).bucket(role, region.name) for role in ("models", "caches")
    }
    open_models(platform, region, buckets, opts)
    if platform.network_policies and (models := connected(region)):
        args = ConnectedModelsArgs(models=models, namespace=region.namespace)
        ConnectedModels(f"{region.name}-connected", args, opts)
    servers = {
        served.name: serve(platform, region, served, buckets, opts) for served in region.served
    }
    ModelRoutes(
        f"{region.name}-routes", assemble.model_routes_args(platform, region, servers), opts
    )
