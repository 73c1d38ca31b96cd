"""How many models fit behind one gateway."""

from typing import Any

from gke_inference.gateway.routes import RoutedModel, routes
from policies.invariants.routing.route_limits import RULE
from policies.objects.index import Obj
from policies.objects.world import World


def routed(count: int) -> list[Obj]:
    made: list[Any] = []
    for number in range(count):
        name = f"llama-3.1-8b-{number:04}"
        model = RoutedModel(
            model_name=name,
            pool_name=name.replace(".", "-"),
            selector={"model": name},
            target_port=8000,
            timeout_seconds=60,
        )
        made += routes(model, "models", "acme-gateway", None)
    return [Obj(each, "") for each in made]


def test_a_gateway_has_as_many_models_as_fit_into_a_url_map():
    assert list(RULE.check(World("c", tuple(routed(1298)), None))) == []
    (found,) = RULE.check(World("c", tuple(routed(1299)), None))
    assert found.field == "spec.parentRefs"
    assert "the 1,299 routes of Gateway models/acme-gateway become one URL map" in found.why


def test_a_route_of_two_listeners_of_a_gateway_counts_once():
    every = routed(1298)
    for route in every:
        (parent,) = route.body["spec"]["parentRefs"]
        route.body["spec"]["parentRefs"] = [
            {**parent, "sectionName": section} for section in ("http", "https")
        ]
    assert list(RULE.check(World("c", tuple(every), None))) == []
