"""Features of the Gateway API's HTTPRoutes that GKE's gateways do not have.

Source: what GKE declares to the Gateway API's conformance tests (kubernetes-sigs/gateway-api,
conformance/reports/v1.6/gke-gateway, of 2026-07-23: gke-l7-regional-external-managed of
1.36.2-gke.2154000). The reports on older versions and on gke-l7-rilb (v1.1.0 to v1.5) declare no
feature that this one lacks, and no query parameters before 1.35.2-gke.1751000. What GKE does with
a feature that it does not declare is not documented; the twin assumes that the route is not
accepted.

`HTTPRoutePathRewrite` is not declared, but users of gke-l7-global-external-managed say that it
replaces prefixes and refuses to replace a whole path (Stack Overflow, "GKE Gateway API
ReplaceFullPath"), so only that is listed. `fleet_gateway` replaces a prefix with a multi-cluster
class, for which there is no report; that this works is assumed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_REDIRECTS = (301, 302)
_OF_BACKENDS = {
    "RequestHeaderModifier": "HTTPRouteBackendRequestHeaderModification",
    "RequestRedirect": "HTTPRouteBackendRequestRedirect",
    "URLRewrite": "HTTPRouteBackendURLRewrite",
}
_TIMEOUTS = {"request": "HTTPRouteRequestTimeout", "backendRequest": "HTTPRouteBackendTimeout"}
_EMPTY: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Undeclared:
    """A field of an HTTPRoute that asks for a feature that GKE does not declare."""

    field: str
    """Path of the field in the HTTPRoute."""
    feature: str
    """Name of the feature in the conformance tests."""
    value: Any


def undeclared_features(route: Mapping[str, Any]) -> Iterator[Undeclared]:
    """Yield the fields of an HTTPRoute that GKE's gateways do not support, in their order."""
    spec: Mapping[str, Any] = route.get("spec") or _EMPTY
    for at, parent in _numbered(spec, "parentRefs", "spec"):
        yield from _given(parent, "port", at, "HTTPRouteParentRefPort")
    for at, rule in _numbered(spec, "rules", "spec"):
        yield from _given(rule, "name", at, "HTTPRouteNamedRouteRule")
        for place, match in _numbered(rule, "matches", at):
            yield from _given(match, "method", place, "HTTPRouteMethodMatching")
        yield from _filters(rule, at)
        for place, backend in _numbered(rule, "backendRefs", at):
            for where, each in _numbered(backend, "filters", place):
                kind = str(each.get("type"))
                yield Undeclared(where, _OF_BACKENDS.get(kind, f"{kind} of a backend"), kind)
        timeouts: Mapping[str, Any] = rule.get("timeouts") or _EMPTY
        for name, feature in _TIMEOUTS.items():
            yield from _given(timeouts, name, f"{at}.timeouts", feature)
        yield from _given(rule, "retry", at, "HTTPRouteRetry")


def _filters(rule: Mapping[str, Any], at: str) -> Iterator[Undeclared]:
    mirrors = 0
    for place, each in _numbered(rule, "filters", at):
        yield from _given(each, "cors", place, "HTTPRouteCORS")
        mirrors += each.get("type") == "RequestMirror"
        if each.get("type") == "RequestMirror" and mirrors > 1:
            yield Undeclared(place, "HTTPRouteRequestMultipleMirrors", f"{mirrors} mirrors")
        redirect: Mapping[str, Any] = each.get("requestRedirect") or _EMPTY
        where = f"{place}.requestRedirect"
        yield from _given(redirect, "port", where, "HTTPRoutePortRedirect")
        status = redirect.get("statusCode", 302)
        if status not in _REDIRECTS:
            feature = f"HTTPRoute{status}RedirectStatusCode"
            yield Undeclared(f"{where}.statusCode", feature, status)
        rewrite: Mapping[str, Any] = each.get("urlRewrite") or _EMPTY
        path: Mapping[str, Any] = rewrite.get("path") or _EMPTY
        where = f"{place}.urlRewrite.path"
        yield from _given(path, "replaceFullPath", where, "HTTPRoutePathRewrite")


def _given(owner: Mapping[str, Any], name: str, at: str, feature: str) -> Iterator[Undeclared]:
    if owner.get(name):
        yield Undeclared(f"{at}.{name}", feature, owner[name])


def _numbered(
    owner: Mapping[str, Any], name: str, at: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    found: Sequence[Mapping[str, Any]] = owner.get(name) or ()
    for number, each in enumerate(found):
        yield f"{at}.{name}[{number}]", each
