"""What nodes boot."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.lifecycle.shielded_nodes import RULE


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
