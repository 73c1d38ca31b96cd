"""Descriptions of a stack's models: their names, and the placements and prices of each."""

from collections.abc import Iterable
from typing import Any

from gke_inference.catalogue.prices import rung_price
from gke_inference.catalogue.rungs import Rung
from infra.plan import Plan, ServedModel


def described(plan: Plan, name: str) -> dict[str, Any]:
    """Return the facts about a model that are known without calling it."""
    model = plan.platform.models[name]
    canary = model.canary
    return {
        "adapters": list(model.adapter_names(name)),
        **(
            {}
            if canary is None
            else {"canary": {"version": canary.version, "percent": canary.percent}}
        ),
        "capacity": model.capacity,
        "context": model.context,
        "form": plan.platform.form_of(model).value,
        **({"further_models": list(model.further_models)} if model.further_models else {}),
        "regions": [served.region for served in plan.models[name]],
        "replicas": {"min": model.replicas.min, "max": model.replicas.max},
        "task": model.task.value,
    }


def placements(model: Iterable[ServedModel]) -> dict[str, list[dict[str, Any]]]:
    """Return the rungs a model may run on by region, in the order tried, with prices.

    Args:
        model: The model in each of its regions.
    """
    return {
        served.region: [_placed(rung, served.region) for rung in served.rungs.values()]
        for served in model
    }


def _placed(rung: Rung, region: str) -> dict[str, Any]:
    """Return one rung with the price of a replica, or no price if none is published."""
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
