"""NetworkPolicies between pods."""

from typing import Any

import pytest

from twin.cluster.base.network_policies import (
    between_pods,
    lets_in,
    out_of_the_cluster,
    sent_by_pod,
)

POD: Any = {
    "metadata": {"name": "m", "namespace": "models", "labels": {"app": "m"}},
    "spec": {"containers": [{"ports": [{"name": "metrics", "containerPort": 9090}]}]},
}
COLLECTORS = {"matchLabels": {"kubernetes.io/metadata.name": "gmp-system"}}
SENDER = sent_by_pod(COLLECTORS["matchLabels"], {"app.kubernetes.io/name": "collector"})


def policy(*peers: Any, namespace: str = "models", **port: Any) -> Any:
    rule = {"from": list(peers), "ports": [port]}
    return {
        "metadata": {"name": "p", "namespace": namespace},
        "spec": {"podSelector": {}, "ingress": [rule]},
    }


@pytest.mark.parametrize(
    ("policies", "passes"),
    [
        ([], True),
        ([policy({"namespaceSelector": COLLECTORS}, port=9090)], True),
        ([policy({"namespaceSelector": COLLECTORS}, port="metrics")], True),
        ([policy({"namespaceSelector": COLLECTORS}, port="other")], False),
        ([policy({"namespaceSelector": COLLECTORS}, port=8000)], False),
        ([policy({"namespaceSelector": {"matchLabels": {"team": "a"}}}, port=9090)], False),
        ([policy({"namespaceSelector": COLLECTORS, "podSelector": {}}, port=9090)], True),
        (
            [
                policy(
                    {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "x"}}},
                    port=9090,
                )
            ],
            False,
        ),
        ([policy({"podSelector": {}}, port=9090)], False),  # pods of the policy's own namespace
        ([policy({"ipBlock": {"cidr": "0.0.0.0/0"}}, port=9090)], False),
        ([policy(namespace="other", port=8000)], True),
        ([policy(port=8000), policy({"namespaceSelector": {}}, port=9090)], True),
    ],
)
def test_a_pod_of_another_namespace_needs_a_peer_that_selects_both(policies, passes):
    assert lets_in(policies, POD, 9090, SENDER) is passes


NAMESPACES = {"models": {"team": "a"}, "jobs": {"team": "b"}}
CALLER: Any = {
    "metadata": {"name": "c", "namespace": "models", "labels": {"app": "c"}},
    "spec": {"containers": []},
}
AWAY: Any = {**CALLER, "metadata": {**CALLER["metadata"], "namespace": "jobs"}}
NODE: Any = {**AWAY, "spec": {"hostNetwork": True}}
NEAR = {"podSelector": {"matchLabels": {"app": "c"}}}
TEAM_B = {"namespaceSelector": {"matchLabels": {"team": "b"}}}
IN = "models/c to port 9090 of models/m: no NetworkPolicy of the receiver's namespace lets it in"
OUT = "models/c to port 9090 of models/m: no NetworkPolicy of the sender's namespace lets it out"


def out(*peers: Any, **port: Any) -> Any:
    rule = {"to": list(peers), "ports": [port]}
    spec = {"podSelector": {"matchLabels": {"app": "c"}}, "policyTypes": ["Egress"]}
    meta = {"name": "o", "namespace": "models"}
    return {"metadata": meta, "spec": {**spec, "egress": [rule]}}


@pytest.mark.parametrize(
    ("policies", "refused"),
    [
        ([], None),
        ([policy(NEAR, port=9090)], None),
        ([policy({"podSelector": {}}, port="metrics")], None),
        ([policy({"podSelector": {"matchLabels": {"app": "x"}}}, port=9090)], IN),
        ([policy(NEAR, port=8000)], IN),
        ([policy({"namespaceSelector": {"matchLabels": {"team": "a"}}}, port=9090)], None),
        ([policy(TEAM_B, port=9090)], IN),
        ([policy({"ipBlock": {"cidr": "0.0.0.0/0"}}, port=9090)], IN),
        ([out({"podSelector": {}}, port=9090)], None),
        ([out({"podSelector": {}}, port="metrics")], None),  # a name of the receiver's ports
        ([out({"podSelector": {}}, port=8000)], OUT),
        ([out(TEAM_B, port=9090)], OUT),
        ([out({"ipBlock": {"cidr": "0.0.0.0/0"}}, port=9090)], OUT),
        ([out({"podSelector": {}}, port=9090), policy(TEAM_B, port=9090)], IN),
    ],
)
def test_both_ends_have_to_let_a_pod_reach_another_one(policies, refused):
    assert between_pods(policies, NAMESPACES, CALLER, POD, 9090) == refused


def test_a_pod_of_another_namespace_is_not_meant_by_a_selector_of_pods_alone():
    text = IN.replace("models/c", "jobs/c")
    assert between_pods([policy(NEAR, port=9090)], NAMESPACES, AWAY, POD, 9090) == text
    assert between_pods([policy(TEAM_B, port=9090)], NAMESPACES, AWAY, POD, 9090) is None
    named = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "jobs"}}}
    assert between_pods([policy(named, port=9090)], {}, AWAY, POD, 9090) is None


def test_a_pod_reaches_itself_and_a_node_reaches_its_pods():
    closed = [policy(port=1)]
    assert between_pods(closed, NAMESPACES, POD, POD, 9090) is None
    assert between_pods(closed, NAMESPACES, NODE, POD, 9090) is None


@pytest.mark.parametrize(
    ("policies", "is_let_out"),
    [
        ([], True),
        ([policy(port=1)], True),  # for ingress alone
        ([out({"ipBlock": {"cidr": "0.0.0.0/0"}}, port=443)], True),
        ([out(port=443)], True),
        ([out({"ipBlock": {"cidr": "199.36.153.8/30"}}, port=443)], True),
        ([out({"ipBlock": {"cidr": "0.0.0.0/0"}}, port=80)], False),
        ([out({"ipBlock": {"cidr": "0.0.0.0/0"}}, port="https")], False),
        ([out({"ipBlock": {"cidr": "0.0.0.0/0", "except": ["199.36.0.0/16"]}}, port=443)], False),
        ([out({"ipBlock": {"cidr": "10.0.0.0/8"}}, port=443)], False),
        ([out({"podSelector": {}}, port=443)], False),
        ([out(TEAM_B, port=443), out({"ipBlock": {"cidr": "0.0.0.0/0"}}, port=443)], True),
    ],
)
def test_a_policy_for_egress_has_to_let_a_pod_out_of_the_cluster(policies, is_let_out):
    text = "models/c to 199.36.153.8:443: no NetworkPolicy of its namespace lets it out"
    found = out_of_the_cluster(policies, CALLER, "199.36.153.8", 443)
    assert found == (None if is_let_out else text)


def test_a_pod_on_the_host_network_has_the_address_of_its_node():
    closed = out({"podSelector": {}}, port=1)
    closed["metadata"]["namespace"] = NODE["metadata"]["namespace"]
    closed["spec"]["podSelector"] = {}
    assert out_of_the_cluster([closed], NODE, "199.36.153.8", 443) is None
    assert out_of_the_cluster([closed], AWAY, "199.36.153.8", 443) is not None
