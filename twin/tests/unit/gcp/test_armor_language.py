"""Expressions of Cloud Armor, and the rules of a policy."""

import re
from typing import Any

import pytest

from gke_inference.catalogue.load_balancing import MAX_BODY_BYTES
from gke_inference.gateway.edge import edge_rules
from twin.providers.gcp.checks import armor_language as language
from twin.providers.gcp.checks.armor_language import ExpressionError, parse
from twin.providers.gcp.resources.security_policies import (
    Answer,
    ArmorRule,
    Limit,
    Rate,
    check_security_policy,
    enforced,
)
from twin.tests.fronts import camel
from twin.wire.property_values import CloudError

LENGTH = "request.headers['content-length']"
EVERYBODY = {"config": {"srcIpRanges": ["*"]}, "versionedExpr": "SRC_IPS_V1"}


def rule(priority: int, action: str, expression: str | None = None, **more: Any) -> dict[str, Any]:
    match = EVERYBODY if expression is None else {"expr": {"expression": expression}}
    return {"priority": priority, "action": action, "match": match, **more}


def test_operators_bind_as_in_cel():
    found = parse("request.method == 'PUT' || !has(request.headers['a']) && (request.path == '/b')")
    assert found == language.Any(
        (
            language.HeaderIs(":method", "PUT"),
            language.All(
                (language.Not(language.HasHeader("a")), language.Path("/b", is_prefix=False))
            ),
        )
    )


@pytest.mark.parametrize(
    ("operator", "low", "high"),
    [(">", 6, 2**63 - 1), (">=", 5, 2**63 - 1), ("<", -(2**63 - 1), 4), ("==", 5, 5)],
)
def test_a_number_in_a_header_is_compared(operator: str, low: int, high: int) -> None:
    found = parse(f"int({LENGTH}) {operator} 5")
    assert found == language.HeaderNumber("content-length", low, high)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be an expression that the twin knows, got ''"),
        (f"{LENGTH} > 5", f'must be an expression that the twin knows, got "{LENGTH} > 5"'),
        ("has(request.headers['Host'])", "must name headers in lowercase, got 'Host'"),
        ("(request.path == '/a'", "must have a closing parenthesis, got ''"),
        ("request.path == '/a' 7", "must be an expression that the twin knows, got '7'"),
        (" || ".join(["request.path == '/a'"] * 6), "must have at most 5 subexpressions, got 6"),
    ],
)
def test_an_expression_that_is_wrong_or_unknown_is_refused(text: str, message: str) -> None:
    with pytest.raises(ExpressionError) as error:
        parse(text)
    assert str(error.value) == message


def test_a_policy_is_refused_for_its_expression_and_its_status() -> None:
    with pytest.raises(CloudError, match=r"rules\[0\].match.expr.expression.*subexpressions"):
        check_security_policy({"rules": [rule(1, "allow", " && ".join([f"has({LENGTH})"] * 6))]})
    rules = [rule(1, "allow"), rule(2, "deny(413)", f"has({LENGTH})")]
    with pytest.raises(CloudError, match=r"rules\[1\].action.*deny\(502\), got deny\(413\)"):
        check_security_policy({"rules": rules})


def rated(action: str, count: object, exceed: str = "deny(429)") -> dict[str, Any]:
    threshold = {"count": count, "intervalSec": 60}
    options = {"conformAction": "allow", "exceedAction": exceed, "rateLimitThreshold": threshold}
    return {**rule(1, action), "rateLimitOptions": options}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (rated("throttle", 1_000_000), ""),
        (rated("throttle", 1_000_001), "count': must be from 1 to 1000000 for throttle, got 10000"),
        (rated("throttle", 0), "count': must be from 1 to 1000000 for throttle, got 0"),
        (rated("rate_based_ban", 10_000), ""),
        (rated("rate_based_ban", 10_001), "must be from 1 to 10000 for rate_based_ban, got 10001"),
        (rated("throttle", 1, "deny(413)"), "exceedAction': must be one of deny(403), deny(404), "),
    ],
)
def test_a_rate_is_within_what_its_action_allows(given: dict[str, Any], message: str) -> None:
    if not message:
        check_security_policy({"rules": [given]})
        return
    with pytest.raises(CloudError, match=re.escape(message)):
        check_security_policy({"rules": [given]})


@pytest.mark.parametrize("name", ["rateLimitThreshold", "banThreshold"])
def test_an_interval_is_one_of_googles(name: str) -> None:
    given = rated("rate_based_ban", 1)
    given["rateLimitOptions"][name] = {"count": 1, "intervalSec": 45}
    with pytest.raises(CloudError, match=rf"{name}.intervalSec': must be one of 10, 30, 60, .*45"):
        check_security_policy({"rules": [given]})


def test_rules_are_enforced_in_order_without_those_in_preview_and_for_single_addresses() -> None:
    a, b = "request.path == '/a'", "request.path == '/b'"
    single = {"config": {"srcIpRanges": ["198.51.100.0/24"]}, "versionedExpr": "SRC_IPS_V1"}
    rules = [
        rule(40, "deny(404)", "has(request.headers['never'])"),
        rated("throttle", 600) | {"priority": 30},
        rule(20, "deny(403)", b),
        rule(16, "deny(403)") | {"match": single},
        rule(15, "deny(502)", a, preview=True),
        rule(10, "allow", a),
    ]
    assert enforced({"rules": rules}) == (
        ArmorRule(10, parse(a)),
        ArmorRule(20, parse(b), Answer(403)),
        ArmorRule(30, limit=Limit(Rate(600, 60), Answer(429))),
    )
    assert enforced({"rules": [rule(10, "allow", a), rule(20, "allow")]}) == ()


def test_a_limit_has_its_keys_and_its_ban() -> None:
    banning = rated("rate_based_ban", 5, "redirect")
    banning["rateLimitOptions"] |= {
        "banDurationSec": 300,
        "banThreshold": {"count": 50, "intervalSec": 600},
        "enforceOnKeyConfigs": [
            {"enforceOnKeyType": "HTTP_HEADER", "enforceOnKeyName": "X-Team"},
            {"enforceOnKeyType": "IP"},
        ],
        "exceedRedirectOptions": {"type": "EXTERNAL_302", "target": "https://example.com/busy"},
    }
    (found,) = enforced({"rules": [banning]})
    assert found.limit == Limit(
        rate=Rate(5, 60),
        answer=Answer(302, "https://example.com/busy"),
        keys=(("HTTP_HEADER", "x-team"), ("IP", "")),
        ban_seconds=300,
        ban=Rate(50, 600),
    )


def test_the_platforms_policy_denies_long_bodies_except_batch_files_and_counts_addresses() -> None:
    values = {"rules": [camel(each) for each in edge_rules(600)]}
    check_security_policy(values)
    length, count = enforced(values)
    assert length == ArmorRule(
        900,
        language.All(
            (
                language.HasHeader("content-length"),
                language.HeaderNumber("content-length", 2 * MAX_BODY_BYTES + 1, 2**63 - 1),
                language.Not(language.Path("/v1/files", is_prefix=True)),
            )
        ),
        Answer(403),
    )
    limit = Limit(Rate(600, 60), Answer(429), (("IP", ""),))
    assert count == ArmorRule(1000, limit=limit)
