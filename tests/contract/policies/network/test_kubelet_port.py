"""The port of the kubelet that asks for no credentials is closed."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.network.kubelet_port import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        (
            "gcp:container/cluster:Cluster",
            {
                "nodePoolDefaults": {
                    "nodeConfigDefaults": {"insecureKubeletReadonlyPortEnabled": "FALSE"}
                }
            },
            None,
        ),
        ("gcp:container/cluster:Cluster", {}, "insecureKubeletReadonlyPortEnabled"),
        (
            "gcp:container/cluster:Cluster",
            {
                "nodePoolDefaults": {
                    "nodeConfigDefaults": {"insecureKubeletReadonlyPortEnabled": "TRUE"}
                }
            },
            "'TRUE'",
        ),
        ("gcp:container/cluster:Cluster", {"nodePoolDefaults": UNKNOWN}, "unknown"),
    ],
)
def test_kubelet_port_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)
