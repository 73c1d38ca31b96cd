"""What a platform gives to the outside: endpoints, clusters, models, and where each may run."""

from collections.abc import Iterable, Mapping
from typing import Any

import pulumi

from gke_inference.catalogue.prices import rung_price
from gke_inference.catalogue.rungs import Rung
from infra.plan import Plan, ServedModel
from infra.plan.endpoint import catalogue_path, endpoint
from infra.platform_reference import OUTPUT, Shared, record
from infra.region import BuiltRegion
from infra.stack import Layer, Model, Platform


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


def serving_exports(plan: Plan, shared: Shared) -> dict[str, Any]:
    """Return the outputs of a serving stack by name."""
    platform = plan.platform
    addresses = {
        name: shared.regions[name].address for name, region in plan.regions.items() if region.served
    }
    endpoints = {
        name: endpoint(platform.gateway, address) for name, address in addresses.items() if address
    }
    return {
        "addresses": addresses,
        "catalogue": catalogue_path(platform),
        "endpoint": next(iter(endpoints.values()), ""),
        "endpoints": endpoints,
        "models": {name: described(platform, model) for name, model in platform.models.items()},
        "placements": {name: placements(plan.models[name]) for name in platform.models},
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


def placements(model: Iterable[ServedModel]) -> dict[str, list[dict[str, Any]]]:
    """Return the rungs a model may run on by region, in the order they are tried, with prices.

    Args:
        model: The model in each of its regions.
    """
    return {
        served.region: [_placed(rung, served.region) for rung in served.rungs.values()]
        for served in model
    }


def _placed(rung: Rung, region: str) -> dict[str, Any]:
    """Return one rung with the price of a replica; no price where none is published."""
    placed: dict[str, Any] = {
        "machine_type": rung.machine_type,
        "rung": rung.label,
        "zones": list(rung.reservation_zones or rung.zones),
    }
    price = rung_price(rung, region, allow_partial=True)
    if price is not None:
        placed["usd_per_hour"] = round(price.usd_per_hour, 4)
        placed["price"] = f"{price.source}, {price.date}, {price.confidence}"
        if price.lacks_host:
            placed["price_lacks_host"] = True
    return placed
