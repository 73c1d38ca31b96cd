"""Outputs of a platform stack: endpoints, clusters, models, and the rungs that each may run on."""

from collections.abc import Mapping
from typing import Any

import pulumi

from gke_inference.front.routes import PATH_OF_MODELS
from infra.deploy.built_region import BuiltRegion
from infra.deploy.described import described, placements
from infra.plan import Plan
from infra.reading.platform_reference import OUTPUT, record
from infra.stack import Front, Layer


def exports(
    plan: Plan,
    built: Mapping[str, BuiltRegion],
    front: pulumi.Output[str] | None = None,
    fleet: pulumi.Output[dict[str, str]] | None = None,
) -> dict[str, Any]:
    """Return the stack's outputs by name.

    Args:
        plan: The stack, resolved.
        built: Outputs of each region.
        front: Global IP address of the front, if there is one.
        fleet: Addresses by region of the gateway over all clusters, if there is one.
    """
    platform = plan.platform
    addresses = {
        region: parts.gateway.address
        for region, parts in built.items()
        if parts.gateway is not None
    }
    if fleet is not None:
        addresses = {
            region: fleet.apply(lambda found, region=region: found[region])
            for region in plan.front.regions
        }
    endpoints = {
        region: address.apply(platform.gateway.endpoint) for region, address in addresses.items()
    }
    first = endpoints[min(endpoints)] if endpoints else pulumi.Output.from_input("")
    exported = {
        "addresses": addresses,
        "clusters": {
            region: {
                "endpoint": parts.cluster.endpoint,
                "location": parts.cluster.location,
                "name": parts.cluster.cluster_name,
            }
            for region, parts in built.items()
        },
        "endpoint": first,
        "endpoints": endpoints,
        "models": {name: described(plan, name) for name in platform.models},
        **_fronted(plan, built, first, front),
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
    plan: Plan,
    built: Mapping[str, BuiltRegion],
    first: pulumi.Output[str],
    front: pulumi.Output[str] | None,
) -> dict[str, Any]:
    """Return the outputs of stacks with a front or published gateways."""
    attachments = {
        region: parts.published.attachment
        for region, parts in built.items()
        if parts.published is not None
    }
    outputs: dict[str, Any] = {"attachments": attachments} if attachments else {}
    if front is not None:
        outputs["front"] = front
    paths, gateway = plan.front.paths, plan.front.gateway
    if gateway.has_fleet_gateway:
        outputs["model_endpoints"] = {
            name: first.apply(lambda base, name=name: f"{base}{PATH_OF_MODELS}{name}")
            for name in plan.platform.models
        }
    elif gateway.front is Front.GLOBAL and paths:
        outputs["model_endpoints"] = {
            name: f"{gateway.endpoint('')}{PATH_OF_MODELS}{name}" for name in paths
        }
    return outputs
