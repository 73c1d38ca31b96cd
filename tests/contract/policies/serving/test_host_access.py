"""Pods stay in their own namespaces of network, processes and files."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.serving.host_access import RULE
from tests.contract.policies.workloads import workload


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        (
            "kubernetes:apps/v1:Deployment",
            workload({"containers": [{"name": "a"}]}),
            None,
        ),
        (
            "kubernetes:apps/v1:Deployment",
            workload({"containers": [{"name": "a"}], "hostNetwork": True}),
            "hostNetwork",
        ),
        (
            "kubernetes:apps/v1:Deployment",
            workload(
                {
                    "containers": [{"name": "a"}],
                    "volumes": [{"name": "v", "hostPath": {"path": "/dev"}}],
                }
            ),
            "/dev",
        ),
        (
            "kubernetes:apps/v1:Deployment",
            {
                "spec": {
                    "template": {
                        "metadata": {"annotations": {"gke-inference/host-access-because": "RDMA"}},
                        "spec": {"containers": [{"name": "a"}], "hostNetwork": True},
                    }
                }
            },
            None,
        ),
        (
            "kubernetes:apps/v1:Deployment",
            workload({"containers": [{"name": "a"}], "hostNetwork": UNKNOWN}),
            "unknown",
        ),
    ],
)
def test_host_access_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)
