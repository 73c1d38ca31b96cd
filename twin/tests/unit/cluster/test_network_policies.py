"""NetworkPolicies that let the pods of another namespace into a pod."""

from typing import Any

import pytest

from twin.cluster.base.network_policies import lets_in, sent_by_pod

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
