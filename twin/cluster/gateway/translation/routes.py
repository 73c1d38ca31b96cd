"""Translation of HTTPRoutes: the effect of each rule on its listeners."""

from dataclasses import dataclass, replace

from twin.cluster.gateway.translation import rules_of_routes as rules
from twin.cluster.gateway.translation.backends import BackendIndex
from twin.cluster.gateway.translation.conditions import Problem
from twin.cluster.gateway.translation.model import Backend, Mirror, Route, Target
from twin.cluster.gateway.translation.objects import JsonObject, items, key_of

_ANYTHING: JsonObject = {}


@dataclass(frozen=True)
class RouteResult:
    """The routes of an HTTPRoute."""

    routes: tuple[Route, ...]
    """One per match of each rule; empty if the HTTPRoute is rejected."""
    refused: Problem | None = None
    """Error for which the whole HTTPRoute is not accepted."""
    unresolved: Problem | None = None
    """Error of the first backend reference that does not resolve."""


def translate_route(obj: JsonObject, backends: BackendIndex) -> RouteResult:
    """Return the routes of an HTTPRoute, and its errors."""
    unresolved: list[Problem] = []
    routes: list[Route] = []
    try:
        rules.check_features(obj)
        for number, rule in enumerate(items(obj["spec"], "rules") or [_ANYTHING]):
            routes += _rule(obj, number, rule, backends, unresolved)
    except Problem as problem:
        return RouteResult((), refused=problem)
    return RouteResult(tuple(routes), unresolved=unresolved[0] if unresolved else None)


def _rule(
    obj: JsonObject,
    number: int,
    rule: JsonObject,
    backends: BackendIndex,
    unresolved: list[Problem],
) -> list[Route]:
    namespace, name = key_of(obj)
    where = f"spec.rules[{number}]"
    filters: list[JsonObject] = items(rule, "filters")
    rules.check_filters(filters, f"{where}.filters")
    refs: list[JsonObject] = items(rule, "backendRefs")
    resolved = [_resolve(namespace, ref, backends, unresolved) for ref in refs]
    request, response = rules.header_changes(filters)
    base = Route(
        name="",
        match=rules.match_of({}, where),
        targets=tuple(
            Target(backend.name if backend else None, ref.get("weight", 1))
            for ref, backend in zip(refs, resolved, strict=True)
        ),
        timeout_seconds=_timeout(resolved),
        request_headers=request,
        response_headers=response,
        redirect=rules.redirect_of(filters),
        rewrite=rules.rewrite_of(filters),
        mirror=_mirror(namespace, filters, backends, unresolved),
    )
    matches: list[JsonObject] = items(rule, "matches") or [_ANYTHING]
    return [
        replace(
            base,
            name=f"{namespace}/{name}/{number}/{position}",
            match=rules.match_of(item, f"{where}.matches[{position}]"),
        )
        for position, item in enumerate(matches)
    ]


def _resolve(
    namespace: str, ref: JsonObject, backends: BackendIndex, unresolved: list[Problem]
) -> Backend | None:
    try:
        return backends.resolve(namespace, ref)
    except Problem as problem:
        unresolved.append(problem)
        return None


def _timeout(resolved: list[Backend | None]) -> float:
    """Return the response timeout in seconds.

    On Google's load balancer, the timeout belongs to the backend service. Envoy has one per route,
    so a rule with several backends uses the longest of their timeouts.
    """
    return float(max((each.timeout_seconds for each in resolved if each is not None), default=30))


def _mirror(
    namespace: str,
    filters: list[JsonObject],
    backends: BackendIndex,
    unresolved: list[Problem],
) -> Mirror | None:
    for item in filters:
        if item["type"] == "RequestMirror":
            spec: JsonObject = item["requestMirror"]
            backend = _resolve(namespace, spec["backendRef"], backends, unresolved)
            return None if backend is None else Mirror(backend.name, rules.mirror_percent(spec))
    return None
