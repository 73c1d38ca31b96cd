"""What a platform gives to the outside: endpoints, clusters, models, and where each may run."""

from collections.abc import Mapping
from typing import Any

import pulumi

from infra.described import described, placements
from infra.plan import Plan
from infra.plan.endpoint import endpoint
from infra.platform_reference import OUTPUT, record
from infra.region import BuiltRegion
from infra.stack import Layer


def exports(plan: Plan, built: Mapping[str, BuiltRegion]) -> dict[str, Any]:
    """Return the stack's outputs by name."""
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
        "models": {name: described(platform, model) for name, model in platform.models.items()},
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
