"""What nodes boot."""

import pytest

from policies.rules.lifecycle.shielded_nodes import RULE

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        ("gcp:container/cluster:Cluster", {"enableShieldedNodes": True}, None),
        ("gcp:container/cluster:Cluster", {"enableShieldedNodes": False}, "enableShieldedNodes"),
        ("gcp:container/cluster:Cluster", {}, "enableShieldedNodes"),
        ("gcp:container/cluster:Cluster", {"enableAutopilot": True}, None),
        ("gcp:container/cluster:Cluster", {"enableShieldedNodes": UNKNOWN}, "unknown"),
        (
            "gcp:container/nodePool:NodePool",
            {
                "nodeConfig": {
                    "shieldedInstanceConfig": {
                        "enableSecureBoot": True,
                        "enableIntegrityMonitoring": True,
                    }
                }
            },
            None,
        ),
        (
            "gcp:container/nodePool:NodePool",
            {
                "nodeConfig": {
                    "shieldedInstanceConfig": {
                        "enableSecureBoot": False,
                        "enableIntegrityMonitoring": True,
                    }
                }
            },
            "enableSecureBoot",
        ),
        (
            "gcp:container/nodePool:NodePool",
            {"nodeConfig": {"shieldedInstanceConfig": {"enableSecureBoot": True}}},
            "enableIntegrityMonitoring",
        ),
        (
            "gcp:container/nodePool:NodePool",
            {"nodeConfig": {"shieldedInstanceConfig": UNKNOWN}},
            "unknown",
        ),
    ],
)
def test_shielded_nodes_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)
