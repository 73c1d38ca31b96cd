"""Converts rules to SDK policies."""

from collections.abc import Callable, Mapping
from typing import Any

import pulumi_policy as sdk
from pulumi_policy.proxy import UNKNOWN_OBJECT_VALUE, unknown_checking_proxy

from policies.framework.resources import Properties, Resource
from policies.framework.rule import Level, Policy, ResourceRule, StackRule
from policies.rules import resource_rules, stack_rules

_LEVELS: dict[Level, sdk.EnforcementLevel | None] = {
    "advisory": sdk.EnforcementLevel.ADVISORY,
    "mandatory": None,  # the pack's
    "remediating": sdk.EnforcementLevel.REMEDIATE,
}


def all_policies(seen: Mapping[str, Properties]) -> list[sdk.Policy]:
    """Return all policies of the pack.

    Args:
        seen: inputs of Kubernetes objects by URN, for the rules about the stack.
    """
    return [
        *(policy_of(rule) for rule in resource_rules()),
        *(stack_policy_of(rule, seen) for rule in stack_rules()),
    ]


def policy_of(rule: ResourceRule) -> sdk.ResourceValidationPolicy:
    """Return the SDK policy for a resource rule."""

    def validate(args: sdk.ResourceValidationArgs, report: sdk.ReportViolation) -> None:
        resource = Resource(args.resource_type, args.name, args.urn, args.props)
        if rule.applies(resource):
            for finding in rule.check(resource, args.get_config()):
                report(finding.message, None)

    def remediate(args: sdk.ResourceValidationArgs) -> dict[str, Any] | None:
        resource = Resource(args.resource_type, args.name, args.urn, args.props)
        if rule.remedy is None or not rule.applies(resource):
            return None
        changes = rule.remedy(resource, args.get_config())
        return {**args.props, **changes} if changes else None

    # the SDK also accepts plain values, although its types require awaitables
    remedy: Any = remediate if rule.remedy is not None else None
    return sdk.ResourceValidationPolicy(
        name=rule.name,
        description=rule.description,
        validate=validate,
        remediate=remedy,
        enforcement_level=_LEVELS[rule.level],
        config_schema=_schema(rule),
    )


def stack_policy_of(rule: StackRule, seen: Mapping[str, Properties]) -> sdk.StackValidationPolicy:
    """Return the SDK policy for a stack rule.

    Args:
        rule: Rule to run.
        seen: inputs of resources by URN. At a preview the engine knows no outputs of objects whose
            cluster does not exist yet, but it had their inputs checked.
    """

    def validate(args: sdk.StackValidationArgs, report: sdk.ReportViolation) -> None:
        resources = [
            Resource(each.resource_type, each.name, each.urn, _known(each, seen))
            for each in args.resources
        ]
        for finding in rule.check(resources, args.get_config()):
            report(finding.message, finding.object)

    return sdk.StackValidationPolicy(
        name=rule.name,
        description=rule.description,
        validate=validate,
        enforcement_level=_LEVELS[rule.level],
        config_schema=_schema(rule),
    )


def _known(resource: sdk.PolicyResource, seen: Mapping[str, Properties]) -> Properties:
    """Return the properties of a resource: its outputs, its inputs, or unknown values."""
    if resource.props or not resource.resource_type.startswith("kubernetes:"):
        return resource.props
    hidden = {"metadata": UNKNOWN_OBJECT_VALUE, "spec": UNKNOWN_OBJECT_VALUE}
    return seen.get(resource.urn, unknown_checking_proxy(hidden))


def _schema(rule: Policy) -> sdk.PolicyConfigSchema | None:
    if not rule.config:
        return None
    schema: Callable[..., Any] = sdk.PolicyConfigSchema
    return schema(properties=dict(rule.config))
