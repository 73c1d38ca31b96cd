"""Who may talk to a model server is written down."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.network.namespace_policies import STACK_RULE
from tests.contract.policies.workloads import workload

SERVER = (
    "kubernetes:apps/v1:Deployment",
    workload({"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}),
)
PLAIN = ("kubernetes:apps/v1:Deployment", {"metadata": {"namespace": "other"}})


def policy(namespace="models", **spec):
    body = {"podSelector": {}, "policyTypes": ["Ingress"], **spec}
    metadata = {"namespace": namespace}
    return ("kubernetes:networking.k8s.io/v1:NetworkPolicy", {"metadata": metadata, "spec": body})


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ([SERVER, policy()], None),
        ([PLAIN], None),
        ([SERVER], "denies by default"),
        ([SERVER, policy("other")], "denies by default"),
        ([SERVER, policy(ingress=[{}])], "denies by default"),
        ([SERVER, policy(podSelector={"matchLabels": {"a": "b"}})], "denies by default"),
        ([SERVER, policy(podSelector=UNKNOWN)], "unknown"),
    ],
)
def test_namespace_policies_is_judged(judge_stack, check, resources, expected):
    check(judge_stack(STACK_RULE, *resources), expected)
