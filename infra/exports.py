"""What a platform gives to the outside: endpoints, clusters, models, and where each may run."""

from collections.abc import Mapping
from typing import Any

import pulumi

from gke_inference.front.routes import PATH_OF_MODELS
from infra.described import described, placements
from infra.plan import Plan
from infra.plan.endpoint import endpoint
from infra.plan.front import paths_of_models
from infra.platform_reference import OUTPUT, record
from infra.region import BuiltRegion
from infra.stack import Front, Layer


def exports(
    plan: Plan, built: Mapping[str, BuiltRegion], front: pulumi.Output[str] | None = None
) -> dict[str, Any]:
    """Return the stack's outputs by name.

    Args:
        plan: The stack, resolved.
        built: What is built of each region.
        front: The one address over all regions, where there is one.
    """
    platform = plan.platform
    endpoints = {
        region: parts.gateway.address.apply(lambda address: endpoint(platform.gateway, address))
        for region, parts in built.items()
        if parts.gateway is not None
    }
    exported = {
        "addresses": {
            region: parts.gateway.address
            for region, parts in built.items()
            if parts.gateway is not None
        },
        "clusters": {
            region: {
                "endpoint": parts.cluster.endpoint,
                "location": parts.cluster.location,
                "name": parts.cluster.cluster_name,
            }
            for region, parts in built.items()
        },
        "endpoint": next(iter(endpoints.values()), pulumi.Output.from_input("")),
        "endpoints": endpoints,
        "models": {
            name: described(platform, name, model) for name, model in platform.models.items()
        },
        **_fronted(plan, built, front),
        "placements": {name: placements(plan.models[name]) for name in platform.models},
    }
    if platform.layer is Layer.PLATFORM:
        exported[OUTPUT] = record(
            platform,
            {
                region: {
                    "address": parts.gateway.address if parts.gateway is not None else "",
                    "cluster": parts.cluster.cluster_name,
                    "endpoint": parts.cluster.endpoint,
                }
                for region, parts in built.items()
            },
        )
    return exported


def _fronted(
    plan: Plan, built: Mapping[str, BuiltRegion], front: pulumi.Output[str] | None
) -> dict[str, Any]:
    """Return the outputs that only stacks with a front, or published gateways, have."""
    attachments = {
        region: parts.published.attachment
        for region, parts in built.items()
        if parts.published is not None
    }
    found: dict[str, Any] = {"attachments": attachments} if attachments else {}
    if front is not None:
        found["front"] = front
    paths = paths_of_models(plan.platform)
    if plan.platform.gateway.front is Front.GLOBAL and paths:
        gateway = plan.platform.gateway
        found["model_endpoints"] = {
            name: f"{endpoint(gateway, '')}{PATH_OF_MODELS}{name}" for name in paths
        }
    return found
