"""Size of the URL map that GKE makes of the HTTPRoutes of a Gateway.

A Gateway is a load balancer with one URL map, and each match of a route is a rule in it. Compute
Engine refuses a URL map above a megabyte (docs.cloud.google.com/load-balancing/docs/
routing-config-size-quota). In what encoding it is measured is not documented: the size here is that
of the API's JSON without spaces, with the longest names that GKE gives to backend services.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

MAX_URL_MAP_BYTES = 1_000_000
"""Maximum size of a URL map. A classic Application Load Balancer, which no Gateway here is, has
64 KB."""
_PRIORITY = 9_999
_BACKEND_NAME_LENGTH = 63
"""Longest name of a resource of Compute Engine; GKE's have a hash, and names of objects before."""
_BACKEND = (
    "https://www.googleapis.com/compute/v1/projects/"
    f"{'p' * 30}/regions/northamerica-northeast1/backendServices/{'b' * _BACKEND_NAME_LENGTH}"
)
_EMPTY: Mapping[str, Any] = {}
_EVERY_PATH: Mapping[str, Any] = {"type": "PathPrefix", "value": "/"}


def url_map_bytes(routes: Iterable[Mapping[str, Any]]) -> int:
    """Return the size of the rules of a URL map, in bytes.

    Args:
        routes: HTTPRoutes that are attached to the Gateway.
    """
    return sum(
        _size(_rule(rule, match))
        for route in routes
        for rule in (route.get("spec") or _EMPTY).get("rules") or ()
        for match in rule.get("matches") or (_EMPTY,)
    )


def _size(value: object) -> int:
    return len(json.dumps(value, separators=(",", ":")).encode()) + 1  # a comma


def _rule(rule: Mapping[str, Any], match: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rule of a path matcher. A filter is about as long as what becomes of it."""
    path = match.get("path") or _EVERY_PATH
    kind = "fullPathMatch" if path.get("type") == "Exact" else "prefixMatch"
    matched: dict[str, Any] = {kind: path.get("value", "/")}
    for field, key, name in (
        ("headers", "headerMatches", "headerName"),
        ("queryParams", "queryParameterMatches", "name"),
    ):
        if match.get(field):
            matched[key] = [
                {name: each["name"], "exactMatch": each["value"]} for each in match[field]
            ]
    targets = [
        {"backendService": _BACKEND, "weight": each.get("weight", 1)}
        for each in rule.get("backendRefs") or ()
    ]
    return {
        "priority": _PRIORITY,
        "matchRules": [matched],
        "routeAction": {"weightedBackendServices": targets, "filters": rule.get("filters") or []},
    }
