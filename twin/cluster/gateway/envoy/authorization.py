"""Envoy filters for the authorization of a gateway, before any extension."""

from collections.abc import Iterable

from twin.cluster.gateway.envoy.conditions import expression_of
from twin.cluster.gateway.envoy.messages import EnvoyJson, extension
from twin.cluster.gateway.translation.model import (
    Authorization,
    AuthorizationRule,
    Operation,
    TextMatch,
)

_FIELDS = {"Exact": "exact", "Prefix": "prefix", "Suffix": "suffix", "Contains": "contains"}
_ANY: EnvoyJson = {"any": True}


def authorization_filters(found: Authorization | None) -> list[EnvoyJson]:
    """Return the filters that reject requests: DENY rules first, then the lack of an ALLOW rule."""
    if found is None:
        return []
    filters: list[EnvoyJson] = []
    if found.deny:
        filters.append(_filter("deny", "DENY", found.deny))
    if found.is_closed:
        filters.append(_filter("closed", "ALLOW", ()))
    elif found.has_allow:
        filters.append(_filter("allow", "ALLOW", found.allow))
    return filters


def _filter(name: str, action: str, rules: Iterable[AuthorizationRule]) -> EnvoyJson:
    policies = {rule.name: _policy(rule) for rule in rules}
    return extension(
        f"gke.authorization.{name}", "rbac", rules={"action": action, "policies": policies}
    )


def _policy(rule: AuthorizationRule) -> EnvoyJson:
    needed: list[EnvoyJson] = []
    if rule.operations:
        needed.append(_any_of("or_rules", [_operation(each) for each in rule.operations]))
    needed += [{"not_rule": _operation(each)} for each in rule.not_operations]
    nobody = {"not_id": _ANY}
    policy: EnvoyJson = {
        "permissions": [_all(needed)],
        "principals": [nobody if rule.needs_principal else _ANY],
    }
    if rule.condition is not None:
        policy["condition"] = expression_of(rule.condition)
        policy["cel_config"] = {"enable_string_functions": True, "enable_string_concat": True}
    return policy


def _operation(operation: Operation) -> EnvoyJson:
    """Return a permission: every field must match, with any of its values."""
    needed: list[EnvoyJson] = []
    if operation.methods:
        methods = [_header(":method", TextMatch("Exact", each)) for each in operation.methods]
        needed.append(_any_of("or_rules", methods))
    if operation.hosts:
        needed.append(_any_of("or_rules", [_header(":authority", x) for x in operation.hosts]))
    if operation.paths:
        paths: list[EnvoyJson] = [{"url_path": {"path": _text(each)}} for each in operation.paths]
        needed.append(_any_of("or_rules", paths))
    needed += [_header(name, match) for name, match in operation.headers]
    return _all(needed)


def _header(name: str, match: TextMatch) -> EnvoyJson:
    return {"header": {"name": name, "string_match": _text(match)}}


def _text(match: TextMatch) -> EnvoyJson:
    found: EnvoyJson = {_FIELDS[match.kind]: match.value}
    return {**found, "ignore_case": True} if match.ignore_case else found


def _any_of(field: str, rules: list[EnvoyJson]) -> EnvoyJson:
    return rules[0] if len(rules) == 1 else {field: {"rules": rules}}


def _all(rules: list[EnvoyJson]) -> EnvoyJson:
    return _ANY if not rules else _any_of("and_rules", rules)
