"""HTTPRoute rules: matches, filters, precedence."""

import re
from typing import Any

from gke_inference.catalogue.route_features import undeclared_features
from twin.cluster.gateway.translation.conditions import Problem
from twin.cluster.gateway.translation.model import (
    HeaderChange,
    Match,
    Redirect,
    Rewrite,
    Route,
    ValueMatch,
)
from twin.cluster.gateway.translation.objects import JsonObject, items, mapping, strings
from twin.world.rules import all_rules

RULE_FILTERS = frozenset(
    {
        "RequestHeaderModifier",
        "ResponseHeaderModifier",
        "RequestRedirect",
        "URLRewrite",
        "RequestMirror",
    }
)
_MODIFIERS = {
    "RequestHeaderModifier": "requestHeaderModifier",
    "ResponseHeaderModifier": "responseHeaderModifier",
}


def _unsupported(where: str, wanted: str, got: Any) -> Problem:
    return Problem("UnsupportedValue", f"{where}: must be {wanted}, got {got}")


def check_features(route: JsonObject) -> None:
    """Refuse what GKE's gateways do not declare (rule gateway.features).

    Raises:
        Problem: A field of the route asks for such a feature.
    """
    for each in undeclared_features(route):
        text = f"{each.field}: must be absent, as GKE does not declare {each.feature}"
        raise Problem("UnsupportedValue", f"{text}, got {each.value}")


def _value_match(item: JsonObject, where: str, *, lower: bool) -> ValueMatch:
    kind = item.get("type", "Exact")
    name = item["name"].lower() if lower else item["name"]
    if kind == "RegularExpression":
        try:
            re.compile(item["value"])
        except re.error as error:
            raise _unsupported(
                f"{where}.value", "a regular expression", f"{item['value']!r} ({error})"
            ) from error
    return ValueMatch(name, item["value"], regex=kind == "RegularExpression")


def match_of(item: JsonObject, where: str) -> Match:
    """Return one entry of `matches`.

    Raises:
        Problem: GKE's gateway classes do not support the match.
    """
    path: JsonObject = mapping(item, "path")
    kind, value = path.get("type", "PathPrefix"), path.get("value", "/")
    if kind not in {"Exact", "PathPrefix"}:
        raise _unsupported(f"{where}.path.type", "Exact or PathPrefix", kind)
    headers: list[JsonObject] = items(item, "headers")
    query: list[JsonObject] = items(item, "queryParams")
    # for repeated names, only the first entry counts, as the Gateway API requires
    by_name = {h["name"].lower(): h for h in reversed(headers)}
    return Match(
        path=value,
        exact=kind == "Exact",
        headers=tuple(
            _value_match(h, f"{where}.headers", lower=True)
            for h in headers
            if by_name[h["name"].lower()] is h
        ),
        query=tuple(_value_match(q, f"{where}.queryParams", lower=False) for q in query),
    )


def precedence(route: Route, created: str) -> tuple[Any, ...]:
    """Return a sort key that orders routes by Gateway API precedence."""
    match = route.match
    namespace, name, rule, position = route.name.rsplit("/", 3)
    return (
        not match.exact,
        -len(match.path),
        -len(match.headers),
        -len(match.query),
        created,
        namespace,
        name,
        int(rule),
        int(position),
    )


def header_change(filters: list[JsonObject], kind: str, field: str) -> HeaderChange:
    """Return the header changes of a kind of filter."""
    change = HeaderChange()
    for item in filters:
        if item["type"] != kind:
            continue
        spec: JsonObject = mapping(item, field)
        change = HeaderChange(
            set=change.set + tuple((h["name"], h["value"]) for h in items(spec, "set")),
            add=change.add + tuple((h["name"], h["value"]) for h in items(spec, "add")),
            remove=change.remove + tuple(strings(spec, "remove")),
        )
    return change


def header_changes(filters: list[JsonObject]) -> tuple[HeaderChange, HeaderChange]:
    """Return the filters' changes to request and response headers."""
    return (
        header_change(filters, "RequestHeaderModifier", "requestHeaderModifier"),
        header_change(filters, "ResponseHeaderModifier", "responseHeaderModifier"),
    )


def check_filters(filters: list[JsonObject], where: str) -> None:
    """Reject filters of a rule that GKE's gateway classes do not support.

    Raises:
        Problem: a filter is not supported, or changes a header that load balancers reserve.
    """
    for position, item in enumerate(filters):
        kind: str = item["type"]
        if kind not in RULE_FILTERS:
            raise _unsupported(f"{where}.type", " or ".join(sorted(RULE_FILTERS)), kind)
        if kind in _MODIFIERS:
            field = _MODIFIERS[kind]
            _check_names(mapping(item, field), f"{where}[{position}].{field}")


def _check_names(modifier: JsonObject, where: str) -> None:
    """Reject names of headers that a URL map refuses (rule gateway.headers)."""
    rule: dict[str, list[str]] = all_rules()["gateway.headers"].value
    named = [*items(modifier, "set"), *items(modifier, "add")]
    names = [*(str(each["name"]) for each in named), *strings(modifier, "remove")]
    seen: set[str] = set()
    for name in map(str.lower, names):
        if name in rule["names"] or name.startswith(tuple(rule["prefixes"])):
            reserved = ", ".join([*rule["names"], *(f"{each}*" for each in rule["prefixes"])])
            raise _unsupported(where, f"names of headers other than {reserved}", name)
        if name in seen:
            raise _unsupported(where, "each header once", f"{name} twice")
        seen.add(name)


def _path_change(spec: JsonObject) -> tuple[str | None, str | None]:
    path: JsonObject = mapping(spec, "path")
    return path.get("replaceFullPath"), path.get("replacePrefixMatch")


def redirect_of(filters: list[JsonObject]) -> Redirect | None:
    """Return the redirect among a rule's filters."""
    for item in filters:
        if item["type"] == "RequestRedirect":
            spec: JsonObject = item["requestRedirect"]
            full, prefix = _path_change(spec)
            return Redirect(
                status=spec.get("statusCode", 302),
                scheme=spec.get("scheme"),
                hostname=spec.get("hostname"),
                path=full,
                prefix=prefix,
            )
    return None


def rewrite_of(filters: list[JsonObject]) -> Rewrite | None:
    """Return the rewrite among a rule's filters."""
    for item in filters:
        if item["type"] == "URLRewrite":
            spec: JsonObject = item["urlRewrite"]
            _, prefix = _path_change(spec)
            return Rewrite(hostname=spec.get("hostname"), prefix=prefix)
    return None


def mirror_percent(spec: JsonObject) -> float:
    """Return the share of requests that a mirror copies, in percent."""
    fraction: JsonObject | None = spec.get("fraction")
    if fraction is not None:
        return 100.0 * fraction["numerator"] / fraction.get("denominator", 100)
    return float(spec.get("percent", 100))
