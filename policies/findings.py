"""Puts the rules of the pack to resources that were rendered, without an engine.

A preview with the pack is the full answer, since it also mends what can be mended. This one needs
no more than the resources, and takes milliseconds.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from pulumi_policy.proxy import UNKNOWN_STRING_VALUE, UnknownValueError, unknown_checking_proxy

from policies.invariants.world import NOT_KNOWN
from policies.rule import Level, Resource, Rule, StackRule, told
from policies.rules import RULES, STACK_RULES


@dataclass(frozen=True)
class Violation:
    """A resource that breaks a rule of the pack."""

    rule: str
    description: str
    """What the rule asks for."""
    level: Level
    resource: str
    """`Kind name`."""
    message: str


def violations(states: Iterable[Mapping[str, Any]]) -> list[Violation]:
    """Return what breaks the pack's rules, with their default settings, each once.

    A value that only the cloud knows is passed over, as the rule cannot decide.

    Args:
        states: resources as `render` writes them: `type`, `urn` and `inputs`.
    """
    resources = [_resource(state) for state in states]
    found: dict[Violation, None] = {}
    for resource in resources:
        for rule in RULES:
            if rule.applies(resource):
                found |= dict.fromkeys(_one(rule, resource))
    by_urn = {resource.urn: resource for resource in resources}
    for rule in STACK_RULES:
        found |= dict.fromkeys(_several(rule, by_urn))
    return list(found)


def _one(rule: Rule, resource: Resource) -> Iterator[Violation]:
    try:
        for message in rule.check(resource, {}):
            yield _violation(rule, resource, message)
    except UnknownValueError:
        return


def _several(rule: StackRule, by_urn: dict[str, Resource]) -> Iterator[Violation]:
    try:
        for urn, message in rule.check(list(by_urn.values()), {}):
            yield _violation(rule, by_urn[urn], message)
    except UnknownValueError:
        return


def _violation(rule: Rule | StackRule, resource: Resource, message: str) -> Violation:
    title = f"{resource.kind} {resource.name}"
    return Violation(rule.name, rule.description, rule.level, title, told(message))


def _resource(state: Mapping[str, Any]) -> Resource:
    urn = str(state["urn"])
    inputs = cast(dict[str, Any], _with_unknowns(state.get("inputs") or {}))
    props: Any = unknown_checking_proxy(inputs)
    return Resource(str(state["type"]), urn.rpartition("::")[2], urn, props)


def _with_unknowns(value: Any) -> Any:
    """Return a value with the marker of the SDK where `render` wrote that it is not known."""
    if isinstance(value, dict):
        return {key: _with_unknowns(item) for key, item in value.items()}  # pyright: ignore
    if isinstance(value, list):
        return [_with_unknowns(item) for item in value]  # pyright: ignore
    return UNKNOWN_STRING_VALUE if isinstance(value, str) and NOT_KNOWN in value else value
