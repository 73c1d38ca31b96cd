"""Runs a case the way the engine runs the pack: through the SDK's proxies."""

from collections.abc import Callable
from typing import Any

import pulumi_policy as sdk
from pulumi_policy.proxy import UnknownValueError, unknown_checking_proxy

from policies.framework.rule import Policy, ResourceRule, StackRule
from policies.pack.policies import policy_of, stack_policy_of
from policies.pack.rendered import with_unknowns

UNKNOWN = "unknown"
"""The answer where a rule needs a value that a preview does not know."""
DEPLOYMENT = "kubernetes:apps/v1:Deployment"


def properties(case: dict[str, Any]) -> dict[str, Any]:
    """Return the properties of a case; `pod` and `container` are short for a Deployment of one."""
    if "container" in case:
        return properties({"pod": {"containers": [case["container"]]}})
    if "pod" in case:
        spec = {"template": {"spec": case["pod"]}}
        return {"metadata": {"namespace": "models"}, "spec": spec}
    return case["props"]


def answer(rule: Policy, case: dict[str, Any]) -> Any:
    """Return the messages of a policy about a case, or `unknown`."""
    if isinstance(rule, StackRule):
        return _answer_about_stack(rule, case)
    assert isinstance(rule, ResourceRule)
    args = _arguments(case)
    return _messages(lambda report: policy_of(rule).validate(args, report))


def remedied(rule: ResourceRule, case: dict[str, Any]) -> Any:
    """Return the properties that a remediating policy makes of a case; None if it has none."""
    return policy_of(rule).remediate(_arguments(case))


def _urn(resource_type: str, case: dict[str, Any]) -> str:
    return f"urn:pulumi:{case.get('stack', 'dev')}::gke-inference::{resource_type}::it"


def _proxy(value: Any) -> Any:
    return unknown_checking_proxy(with_unknowns(value))


def _arguments(case: dict[str, Any]) -> sdk.ResourceValidationArgs:
    options: Any = None
    return sdk.ResourceValidationArgs(
        case["type"],
        _proxy(properties(case)),
        _urn(case["type"], case),
        "it",
        options,
        None,
        case.get("config", {}),
    )


def _answer_about_stack(rule: StackRule, case: dict[str, Any]) -> Any:
    options: Any = None
    seen: dict[str, Any] = {}
    resources: list[sdk.PolicyResource] = []
    for each in case["resources"]:
        kind, urn = each["type"], _urn(each["type"], case)
        props = _proxy(each["props"])
        resources.append(sdk.PolicyResource(kind, props, urn, "it", options, None, None, [], {}))
        if "seen" in each:
            seen[urn] = _proxy(each["seen"])
    args = sdk.StackValidationArgs(resources)
    return _messages(lambda report: stack_policy_of(rule, seen).validate(args, report))


def _messages(run: Callable[[Callable[..., None]], object]) -> Any:
    messages: list[str] = []
    try:
        run(lambda message, urn=None: messages.append(message))
    except UnknownValueError:
        return messages or UNKNOWN
    return messages
