"""Judge plain values the way the engine has them judged: through the SDK's proxies."""

from collections.abc import Callable
from typing import Any

import pulumi_policy as sdk
import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE, UnknownValueError, unknown_checking_proxy

from policies.pack import policy_of, stack_policy_of
from policies.rule import Rule, StackRule

UNKNOWN = "unknown"
"""The verdict where a rule needs a value that a preview does not know."""


def _options() -> Any:
    return None


def _verdict(run: Callable[[Callable[..., None]], object]) -> Any:
    messages: list[str] = []
    try:
        run(lambda message, urn=None: messages.append(message))
    except UnknownValueError:
        return messages or UNKNOWN
    return messages


def _named(resource_type: str, stack: str) -> str:
    return f"urn:pulumi:{stack}::gke-inference::{resource_type}::it"


@pytest.fixture
def judge() -> Callable[..., Any]:
    """Return the messages of a rule about one resource, or `unknown`."""

    def run(
        rule: Rule,
        resource_type: str,
        props: dict[str, Any],
        *,
        stack: str = "dev",
        config: dict[str, Any] | None = None,
    ) -> Any:
        args = sdk.ResourceValidationArgs(
            resource_type,
            unknown_checking_proxy(props),
            _named(resource_type, stack),
            "it",
            _options(),
            None,
            config or {},
        )
        return _verdict(lambda report: policy_of(rule).validate(args, report))

    return run


@pytest.fixture
def mend() -> Callable[..., Any]:
    """Return the properties that a remediating rule makes of some, None where it changes none."""

    def run(rule: Rule, resource_type: str, props: dict[str, Any]) -> Any:
        args = sdk.ResourceValidationArgs(
            resource_type,
            unknown_checking_proxy(props),
            _named(resource_type, "dev"),
            "it",
            _options(),
            None,
            {},
        )
        return policy_of(rule).remediate(args)

    return run


@pytest.fixture
def judge_stack() -> Callable[..., Any]:
    """Return the messages of a rule about a stack of (type, properties), or `unknown`."""

    def run(
        rule: StackRule,
        *resources: tuple[str, dict[str, Any]],
        seen: dict[str, Any] | None = None,
        stack: str = "dev",
    ) -> Any:
        found = [
            sdk.PolicyResource(
                each,
                unknown_checking_proxy(props),
                _named(each, stack),
                "it",
                _options(),
                None,
                None,
                [],
                {},
            )
            for each, props in resources
        ]
        args = sdk.StackValidationArgs(found)
        return _verdict(lambda report: stack_policy_of(rule, seen or {}).validate(args, report))

    return run


@pytest.fixture
def check() -> Callable[[Any, Any], None]:
    """Compare a verdict with what a table expects.

    `None` stands for no violation, `unknown` for a value that is not known, a text for one
    violation whose message holds it.
    """

    def compare(verdict: Any, expected: str | None) -> None:
        if expected == UNKNOWN:
            assert verdict == UNKNOWN
        elif expected is None:
            assert verdict == []
        else:
            assert verdict != UNKNOWN
            assert len(verdict) == 1, verdict
            assert expected in verdict[0]

    return compare


@pytest.fixture
def unknown_value() -> str:
    return UNKNOWN_STRING_VALUE
