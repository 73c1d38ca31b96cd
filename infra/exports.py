"""What a platform gives to the outside: endpoints, clusters, models, and where each may run."""

from collections.abc import Mapping
from typing import Any

import pulumi

from gke_inference.catalogue.prices import rung_price
from gke_inference.catalogue.rungs import Rung
from infra.plan.capacity import checked_rungs
from infra.plan.endpoint import endpoint
from infra.region import BuiltRegion
from infra.stack import Model, Platform


def exports(platform: Platform, built: Mapping[str, BuiltRegion]) -> dict[str, Any]:
    """Return the stack's outputs by name."""
    endpoints = {
        region: parts.gateway.address.apply(lambda address: endpoint(platform.gateway, address))
        for region, parts in built.items()
        if parts.gateway is not None
    }
    return {
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
        "placements": {
            name: placements(platform, model) for name, model in platform.models.items()
        },
    }


def described(platform: Platform, model: Model) -> dict[str, Any]:
    """Return what there is to know about a model before it is called."""
    canary = model.canary
    return {
        "adapters": list(model.adapters),
        **(
            {}
            if canary is None
            else {"canary": {"version": canary.version, "percent": canary.percent}}
        ),
        "capacity": model.capacity,
        "context": model.context,
        "form": platform.form_of(model).value,
        "regions": list(platform.regions_of(model)),
        "replicas": {"min": model.replicas.min, "max": model.replicas.max},
        "task": model.task.value,
    }


def placements(platform: Platform, model: Model) -> dict[str, list[dict[str, Any]]]:
    """Return the rungs a model may run on by region, in the order they are tried, with prices."""
    return {
        region: [
            _placed(rung, region)
            for rung in checked_rungs(platform, model.capacity, region).values()
        ]
        for region in platform.regions_of(model)
    }


def _placed(rung: Rung, region: str) -> dict[str, Any]:
    """Return one rung with the price of a replica; no price where none is published."""
    placed: dict[str, Any] = {
        "machine_type": rung.machine_type,
        "rung": rung.label,
        "zones": list(rung.reservation_zones or rung.zones),
    }
    price = rung_price(rung, region, allow_lower_bound=True)
    if price is not None:
        placed["usd_per_hour"] = round(price.usd_per_hour, 4)
        placed["price"] = f"{price.source}, {price.date}, {price.confidence}"
        if price.is_lower_bound:
            placed["price_is_lower_bound"] = True
    return placed
