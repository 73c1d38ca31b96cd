"""Checks rendered resources against the policies of the pack, without an engine.

A preview with the pack is the complete check, since it also applies remedies. This check needs only
the resources, and takes milliseconds.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from pulumi_policy.proxy import UNKNOWN_STRING_VALUE, UnknownValueError, unknown_checking_proxy

from policies.framework.finding import Finding
from policies.framework.reading import NOT_KNOWN
from policies.framework.resources import Resource
from policies.framework.rule import Policy
from policies.rules import resource_rules, stack_rules


def findings(states: Iterable[Mapping[str, Any]]) -> list[Finding]:
    """Return the policy violations with default settings, each finding once.

    Values that are known only after deployment are skipped, since a policy cannot decide on them.
    The object of a finding is `Kind name`.

    Args:
        states: resources as `render` writes them: `type`, `urn` and `inputs`.
    """
    resources = {state["urn"]: _resource(state) for state in states}
    found = [
        finding
        for resource in resources.values()
        for rule in resource_rules()
        if rule.applies(resource)
        for finding in _known(rule, rule.check(resource, {}))
    ]
    for rule in stack_rules():
        found += _known(rule, rule.check(list(resources.values()), {}))
    titled = (replace(each, object=_title(resources[each.object])) for each in found)
    return list(dict.fromkeys(titled))


def with_unknowns(value: Any) -> Any:
    """Return a value with the SDK's marker for values that `render` marked as unknown."""
    if isinstance(value, dict):
        mapping = cast(dict[str, Any], value)
        return {key: with_unknowns(item) for key, item in mapping.items()}
    if isinstance(value, list):
        return [with_unknowns(item) for item in cast(list[Any], value)]
    return UNKNOWN_STRING_VALUE if isinstance(value, str) and NOT_KNOWN in value else value


def _known(rule: Policy, found: Iterator[Finding]) -> Iterator[Finding]:
    """Yield findings up to the first unknown value."""
    try:
        for finding in found:
            yield replace(finding, rule=rule.name)
    except UnknownValueError:
        return


def _title(resource: Resource) -> str:
    return f"{resource.kind} {resource.name}"


def _resource(state: Mapping[str, Any]) -> Resource:
    urn = str(state["urn"])
    props: Any = unknown_checking_proxy(with_unknowns(state.get("inputs") or {}))
    return Resource(str(state["type"]), urn.rpartition("::")[2], urn, props)
