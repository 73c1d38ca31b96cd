"""The whole platform: project, network, regions, and what the stack gives to the outside."""

import pulumi

from gke_inference.capacity.node_image_cache import NodeImageCache
from gke_inference.cluster.network import Network
from infra.arguments import provisioning as assemble
from infra.exports import exports
from infra.images import build_images
from infra.observe import observe
from infra.plan import resolve
from infra.project import enable_services, let_adapters_read
from infra.region import build_region
from infra.stack import Platform


def deploy(platform: Platform) -> None:
    """Register every resource of a platform, and its outputs."""
    plan = resolve(platform)
    services = enable_services(platform)
    ready = pulumi.ResourceOptions(depends_on=services)
    network = Network("network", assemble.network_args(platform), ready)
    image_args = assemble.image_cache_args(platform)
    image = None if image_args is None else NodeImageCache("image-cache", image_args, ready)
    guards = build_images(plan, ready)
    built = {
        name: build_region(
            platform,
            region,
            network,
            None if image is None else image.disk_image,
            [*services, *guards],
        )
        for name, region in plan.regions.items()
    }
    # The project has no workload pool, and so no principals, before it has a cluster.
    let_adapters_read(platform, [parts.cluster for parts in built.values()])
    observe(plan, services)
    for name, value in exports(plan, built).items():
        pulumi.export(name, value)
