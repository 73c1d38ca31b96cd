"""Routing of requests, from the rendered routes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from gke_inference.gateway.router import MODEL_HEADER
from policies.framework.reading import at, entries
from policies.objects.index import Obj
from policies.objects.world import World

_ROUTE = "HTTPRoute"


@dataclass(frozen=True)
class Backend:
    """A destination with its share of the requests."""

    kind: str
    name: str
    percent: float


@dataclass(frozen=True)
class Route:
    """Requests with the same routing."""

    hosts: tuple[str, ...]
    """Hosts; empty for any."""
    names: tuple[str, ...]
    """Requested models and adapters; empty for any."""
    paths: tuple[str, ...]
    headers: tuple[str, ...]
    """Other required headers, as `NAME: VALUE`."""
    backends: tuple[Backend, ...]
    clusters: tuple[str, ...]


def routes(worlds: Iterable[World]) -> tuple[Route, ...]:
    """Return the routes of all clusters, with identical routes merged."""
    found: dict[Route, list[str]] = {}
    for world in worlds:
        for each in world.of(_ROUTE):
            for route in _routes(each):
                found.setdefault(route, []).append(world.name)
    return tuple(replace(route, clusters=tuple(names)) for route, names in found.items())


def _routes(route: Obj) -> Iterator[Route]:
    hosts = tuple(str(host) for host in entries(route.body, "spec", "hostnames"))
    for rule in entries(route.body, "spec", "rules"):
        backends = _backends(rule)
        by_headers: dict[tuple[str, ...], tuple[list[str], list[str]]] = {}
        for match in entries(rule, "matches"):
            headers = {
                str(at(each, "name")): str(at(each, "value")) for each in entries(match, "headers")
            }
            asked = headers.pop(MODEL_HEADER, None)
            key = tuple(f"{name}: {value}" for name, value in sorted(headers.items()))
            names, paths = by_headers.setdefault(key, ([], []))
            names += [asked] if asked is not None else []
            paths.append(str(at(match, "path", "value") or "/"))
        for headers, (names, paths) in by_headers.items():
            yield Route(
                hosts,
                tuple(dict.fromkeys(names)),
                tuple(dict.fromkeys(paths)),
                headers,
                backends,
                (),
            )


def _backends(rule: object) -> tuple[Backend, ...]:
    references = entries(rule, "backendRefs")
    weights = [1 if (given := at(each, "weight")) is None else int(given) for each in references]
    whole = sum(weights) or 1
    return tuple(
        Backend(str(at(each, "kind") or "Service"), str(at(each, "name")), 100 * weight / whole)
        for each, weight in zip(references, weights, strict=True)
    )
