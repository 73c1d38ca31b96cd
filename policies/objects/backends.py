"""Backends of routes, and the load balancer in front of them."""

from collections.abc import Iterator
from dataclasses import dataclass

from policies.framework.reading import at, entries, section
from policies.framework.resources import Properties
from policies.objects.index import Obj
from policies.objects.pods import PodOf
from policies.objects.world import World

_ROUTES = ("GRPCRoute", "HTTPRoute")


@dataclass(frozen=True)
class Backend:
    """One backendRef of a route."""

    route: Obj
    field: str
    kind: str
    namespace: str
    name: str
    port: int | None
    rule: Properties


def backends(world: World) -> Iterator[Backend]:
    """Yield every backendRef of every route."""
    for route in world.of(*_ROUTES):
        for number, rule in enumerate(entries(route.body, "spec", "rules")):
            for index, reference in enumerate(entries(rule, "backendRefs")):
                port = at(reference, "port")
                yield Backend(
                    route,
                    f"spec.rules[{number}].backendRefs[{index}]",
                    str(at(reference, "kind") or "Service"),
                    str(at(reference, "namespace") or route.namespace),
                    str(at(reference, "name")),
                    int(port) if port is not None else None,
                    rule,
                )


def by_gke(world: World, route: Obj) -> bool | None:
    """Return whether Google's load balancer serves a route, or None if no Gateway was read."""
    classes: set[str] = set()
    for parent in entries(route.body, "spec", "parentRefs"):
        gateway = world.find(
            "Gateway", str(at(parent, "namespace") or route.namespace), str(at(parent, "name"))
        )
        if gateway is not None:
            classes.add(str(gateway.at("spec", "gatewayClassName")))
    if not classes:
        return None
    return any(name.startswith("gke-l7") for name in classes)


def targeting(world: World, kind: str, target: Obj) -> list[Obj]:
    """Return the policies of a kind that target an object."""
    return [
        each
        for each in world.of(kind)
        if each.at("spec", "targetRef", "kind") == target.kind
        and each.at("spec", "targetRef", "name") == target.name
        and each.namespace == target.namespace
    ]


def pods_behind(world: World, target: Obj) -> list[PodOf]:
    """Return the pods that a Service or an InferencePool sends requests to."""
    selector = section(target.body, "spec", "selector")
    if target.kind == "Service" or "matchLabels" not in selector:
        selector = {"matchLabels": selector}
    if not section(selector, "matchLabels"):
        return []
    return world.selected(target.namespace, selector)
