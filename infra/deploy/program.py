"""The whole platform: project, network, regions and outputs."""

from collections.abc import Mapping
from typing import Any

import pulumi

from gke_inference.capacity.node_image_cache import NodeImageCache
from infra.deploy import capacity as assemble
from infra.deploy.backends import grant_relay_access
from infra.deploy.clients import build_apigee_apps, build_client_keys
from infra.deploy.delivery import sync_clusters
from infra.deploy.exports import exports
from infra.deploy.fleet import build_fleet
from infra.deploy.front import build_front
from infra.deploy.guardrails import prepare_armor
from infra.deploy.images import build_images, build_pull_through
from infra.deploy.network import build_network
from infra.deploy.observability import observe, set_budget
from infra.deploy.options import protect_stateful
from infra.deploy.project import build_archives, enable_services, let_adapters_read
from infra.deploy.region import build_region
from infra.plan import resolve
from infra.stack import Layer, Platform


def deploy_images(platform: Platform, outputs: Mapping[str, Any]) -> None:
    """Register only the APIs and image builds of a platform, which the rest depends on.

    Args:
        platform: The stack.
        outputs: Outputs of the stack before, which it keeps.
    """
    plan = resolve(platform)
    ready = pulumi.ResourceOptions(depends_on=enable_services(plan.project))
    build_images(plan, ready)
    for name, value in outputs.items():
        pulumi.export(name, value)


def deploy(platform: Platform) -> None:
    """Register all resources and outputs of a platform. For a team, see `team_program`."""
    plan = resolve(platform)
    protect_stateful(plan.project)
    services = enable_services(plan.project)
    ready = pulumi.ResourceOptions(depends_on=services)
    networks = build_network(plan.network, platform.regions, plan.project.id, ready)
    image_args = assemble.image_cache_args(plan.storage.image_cache)
    image = None if image_args is None else NodeImageCache("image-cache", image_args, ready)
    guards = build_images(plan, ready)
    through = None if platform.images is None else platform.images.pull_through
    if through is not None:
        guards.append(build_pull_through(through, plan.project, plan.regions, ready))
    archives = build_archives(plan.storage.archives, plan.project, ready)
    built = {
        name: build_region(
            plan,
            region,
            networks[name],
            None if image is None else image.disk_image,
            [*services, *guards, *archives],
        )
        for name, region in plan.regions.items()
    }
    # A project has no workload pool, and therefore no principals, before its first cluster.
    clusters: list[pulumi.Resource] = [parts.cluster for parts in built.values()]
    if platform.monitoring.metrics_adapter:
        let_adapters_read(plan.project, clusters)
    build_client_keys(plan.clients, plan.names, plan.project, clusters)
    gates = {name: parts.apigee for name, parts in built.items() if parts.apigee is not None}
    app_keys = build_apigee_apps(platform.apigee(), plan.names, plan.project, gates)
    prepare_armor(plan.guardrails, plan.project, services)
    services_of_models = [each for parts in built.values() for each in parts.run_services]
    called = [*clusters, *services_of_models]
    grant_relay_access(plan.backends, plan.names, plan.project, called)
    ids = {name: parts.cluster.cluster_id for name, parts in built.items()}
    if platform.has_config_sync():
        sync_clusters(plan.names, plan.project, ids, [*services, *clusters])
    front = build_front(plan, networks, built, ready)
    if platform.layer is not Layer.PLATFORM:
        observe(plan, services)
    else:
        set_budget(plan, ready)
    fleet = build_fleet(plan, networks, built, ready)
    for name, value in exports(plan, built, front, fleet).items():
        pulumi.export(name, value)
    if app_keys is not None:
        pulumi.export("apigee_keys", app_keys)
