"""The port of the kubelet that asks for no credentials is closed."""

import pytest

from policies.rules.network.kubelet_port import RULE

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


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
