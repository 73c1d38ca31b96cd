"""Authorization policies: what a Gateway rejects, and what the twin says about each policy."""

from typing import Any

import pytest

from twin.cluster.gateway.envoy.authorization import authorization_filters
from twin.cluster.gateway.translation.translate import Translation, translate
from twin.tests.unit.gateway.builders import gateway, gateway_class, obj, snapshot

GROUP = "gateway.networking.k8s.io"
ANY = {"any": True}


def authorization(name: str, *rules: dict[str, Any], **spec: Any) -> dict[str, Any]:
    target = {"group": GROUP, "kind": "Gateway", "name": "gw"}
    found = {"enforcementLevel": "L7", "targetRefs": [target], **spec}
    return obj("GCPAuthzPolicy", name, spec=found | ({"rules": list(rules)} if rules else {}))


def operation(**fields: Any) -> dict[str, Any]:
    return {"to": {"operations": [fields]}}


def path(value: str, kind: str = "Prefix") -> dict[str, Any]:
    return {"type": kind, "value": value}


def filters(found: Translation) -> dict[str, Any]:
    made = authorization_filters(found.gateways["ns", "gw"].authorization)
    return {each["name"]: each["typed_config"]["rules"] for each in made}


def condition(found: Translation, name: str) -> dict[str, Any]:
    (status,) = (u.status for u in found.statuses if u.key == ("ns", name))
    (ancestor,) = status["ancestors"]
    (verdict,) = ancestor["conditions"]
    return verdict


def test_a_gateway_without_policies_has_no_authorization_filter():
    assert filters(translate(snapshot(gateway()))) == {}


def test_deny_rules_come_before_the_lack_of_an_allow_rule():
    deny = authorization(
        "a", operation(headers=[{"name": "X-T", **path("b", "Exact")}]), action="DENY"
    )
    allow = authorization("b", operation(methods=["GET", "POST"], paths=[path("/v1/")]))
    found = translate(snapshot(gateway(), deny, allow))
    assert condition(found, "a")["status"] == condition(found, "b")["status"] == "True"
    header = {"header": {"name": "x-t", "string_match": {"exact": "b"}}}
    methods = [
        {"header": {"name": ":method", "string_match": {"exact": each}}} for each in ("GET", "POST")
    ]
    paths = {"url_path": {"path": {"prefix": "/v1/"}}}
    both = {"and_rules": {"rules": [{"or_rules": {"rules": methods}}, paths]}}
    assert list(filters(found)) == ["gke.authorization.deny", "gke.authorization.allow"]
    assert filters(found) == {
        "gke.authorization.deny": {
            "action": "DENY",
            "policies": {"ns/a/0": {"permissions": [header], "principals": [ANY]}},
        },
        "gke.authorization.allow": {
            "action": "ALLOW",
            "policies": {"ns/b/0": {"permissions": [both], "principals": [ANY]}},
        },
    }


def test_deny_by_default_rejects_what_no_allow_policy_lets_pass():
    nobody = authorization("n", action="DENY_BY_DEFAULT")
    found = filters(translate(snapshot(gateway(), nobody)))
    assert found == {"gke.authorization.allow": {"action": "ALLOW", "policies": {}}}


def test_a_rule_can_exclude_operations_and_have_a_condition():
    rule = {
        "to": {"notOperations": [{"hosts": [{**path("A.example", "Suffix"), "ignoreCase": True}]}]},
        "when": "request.method == 'POST'",
    }
    found = filters(translate(snapshot(gateway(), authorization("p", rule))))
    policy = found["gke.authorization.allow"]["policies"]["ns/p/0"]
    host = {"suffix": "A.example", "ignore_case": True}
    assert policy["permissions"] == [
        {"not_rule": {"header": {"name": ":authority", "string_match": host}}}
    ]
    assert policy["condition"]["call_expr"]["function"] == "_==_"


def test_nobody_has_a_principal_without_client_certificates():
    name = {"principal": {"type": "Exact", "value": "spiffe://x/ns/a/sa/b"}}
    rule = {"from": {"sources": [{"principals": [name]}]}}
    found = filters(translate(snapshot(gateway(), authorization("p", rule))))
    policy = found["gke.authorization.allow"]["policies"]["ns/p/0"]
    assert policy["principals"] == [{"not_id": ANY}]


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (
            authorization("p", action="CUSTOM", customProviders={"extensionRefs": []}),
            "action CUSTOM: the twin does not have the kind GCPAuthzExtension",
        ),
        (
            authorization("p", {"from": {"sources": [{"resources": [{"tagValueIdSet": [1]}]}]}}),
            "from.sources.resources: the twin has no client VMs with tags and accounts",
        ),
    ],
)
def test_a_policy_that_the_twin_cannot_evaluate_closes_its_gateway(policy, message):
    found = translate(snapshot(gateway(), authorization("a", operation()), policy))
    verdict = condition(found, "p")
    assert (verdict["status"], verdict["reason"]) == ("False", "UnsupportedValue")
    assert verdict["message"] == f"{message}; the Gateway rejects every request"
    closed = {"gke.authorization.closed": {"action": "ALLOW", "policies": {}}}
    assert filters(found) == closed


@pytest.mark.parametrize(
    ("spec", "of", "reason", "message"),
    [
        ({}, "gke-l7-gxlb", "Invalid", "gatewayClassName: must be one of"),
        ({"enforcementLevel": "L4"}, None, "Invalid", "enforcementLevel: must be L7"),
        (
            {"targetRefs": [{"group": GROUP, "kind": "Gateway", "name": "other"}]},
            None,
            "TargetNotFound",
            "targetRef: must be a Gateway",
        ),
    ],
)
def test_a_policy_that_google_refuses_is_not_enforced(spec, of, reason, message):
    made = gateway() if of is None else gateway(gatewayClassName=of)
    policy = authorization("p", operation(), **spec)
    found = translate(snapshot(gateway_class("gke-l7-gxlb"), made, policy))
    verdict = condition(found, "p")
    assert (verdict["status"], verdict["reason"]) == ("False", reason)
    assert message in verdict["message"]
    assert filters(found) == {}


def test_a_gateway_has_five_policies_at_most():
    policies = [authorization(f"p{n}", operation()) for n in range(6)]
    found = translate(snapshot(gateway(), *policies))
    assert len(filters(found)["gke.authorization.allow"]["policies"]) == 5
    assert condition(found, "p5")["message"] == "the Gateway must have at most 5 policies, got 6"


def test_a_policy_for_pods_says_that_requests_pass():
    target = {"group": "", "kind": "Pod", "selector": {"matchLabels": {"a": "b"}}}
    found = translate(snapshot(gateway(), authorization("p", operation(), targetRefs=[target])))
    verdict = condition(found, "p")
    assert verdict["reason"] == "UnsupportedValue"
    assert "without this policy" in verdict["message"]
