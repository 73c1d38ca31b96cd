"""What a Cloud Armor policy refuses, as Envoy's role-based access control."""

from collections.abc import Iterable
from typing import Final

from twin.cluster.gateway.envoy.messages import EnvoyJson, extension, typed
from twin.providers.gcp.checks import armor_language as language
from twin.providers.gcp.checks.armor_language import Expression
from twin.providers.gcp.resources.security_policies import Denial

FILTER: Final = "twin.armor"
STATUS: Final = 403
"""Status of Envoy's refusals."""


def armor_filter() -> EnvoyJson:
    """Return the filter, which refuses nothing by itself."""
    return extension(FILTER, "rbac")


def armor_route(denied: Iterable[Denial]) -> EnvoyJson:
    """Return the setting of the filter for the routes of a backend service."""
    policies = {
        f"rule-{at}": {"permissions": [_permission(each.when)], "principals": [{"any": True}]}
        for at, each in enumerate(denied)
    }
    return typed("rbac_route", rbac={"rules": {"action": "DENY", "policies": policies}})


def _permission(when: Expression) -> EnvoyJson:
    found: EnvoyJson
    match when:
        case language.HasHeader():
            found = {"header": {"name": when.header, "present_match": True}}
        case language.HeaderNumber():
            # the end of a range is not a part of it
            ends = {"start": str(when.low), "end": str(min(when.high, 2**63 - 2) + 1)}
            found = {"header": {"name": when.header, "range_match": ends}}
        case language.HeaderIs():
            found = {"header": {"name": when.header, "string_match": {"exact": when.value}}}
        case language.Path():
            kind = "prefix" if when.is_prefix else "exact"
            found = {"url_path": {"path": {kind: when.text}}}
        case language.Not():
            found = {"not_rule": _permission(when.of)}
        case language.All():
            found = {"and_rules": {"rules": [_permission(each) for each in when.of]}}
        case language.Any():
            found = {"or_rules": {"rules": [_permission(each) for each in when.of]}}
    return found
