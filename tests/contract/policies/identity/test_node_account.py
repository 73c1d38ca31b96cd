"""Which account nodes run as."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.identity.node_account import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        (
            "gcp:container/nodePool:NodePool",
            {"nodeConfig": {"serviceAccount": "nodes@p.iam.gserviceaccount.com"}},
            None,
        ),
        (
            "gcp:container/nodePool:NodePool",
            {"nodeConfig": {"serviceAccount": "default"}},
            "nodeConfig.serviceAccount",
        ),
        (
            "gcp:container/nodePool:NodePool",
            {"nodeConfig": {"serviceAccount": "1-compute@developer.gserviceaccount.com"}},
            "default compute",
        ),
        ("gcp:container/nodePool:NodePool", {}, "nodeConfig.serviceAccount"),
        ("gcp:container/nodePool:NodePool", {"nodeConfig": {"serviceAccount": UNKNOWN}}, "unknown"),
        ("gcp:container/cluster:Cluster", {"removeDefaultNodePool": True}, None),
        ("gcp:container/cluster:Cluster", {}, "nodeConfig.serviceAccount"),
        (
            "gcp:container/cluster:Cluster",
            {"enableAutopilot": True},
            "autoProvisioningDefaults.serviceAccount",
        ),
        (
            "gcp:container/cluster:Cluster",
            {
                "enableAutopilot": True,
                "clusterAutoscaling": {
                    "autoProvisioningDefaults": {
                        "serviceAccount": "nodes@p.iam.gserviceaccount.com"
                    }
                },
            },
            None,
        ),
        (
            "gcp:container/cluster:Cluster",
            {"removeDefaultNodePool": True, "clusterAutoscaling": {"enabled": True}},
            "autoProvisioningDefaults",
        ),
        ("gcp:container/cluster:Cluster", {"enableAutopilot": UNKNOWN}, "unknown"),
        (
            "kubernetes:cloud.google.com/v1:ComputeClass",
            {"spec": {"nodePoolConfig": {"serviceAccount": "nodes@p.iam.gserviceaccount.com"}}},
            None,
        ),
        (
            "kubernetes:cloud.google.com/v1:ComputeClass",
            {"spec": {}},
            "spec.nodePoolConfig.serviceAccount",
        ),
        (
            "kubernetes:cloud.google.com/v1:ComputeClass",
            {"spec": {"priorities": [{"nodepools": ["by-hand"]}]}},
            None,
        ),
        (
            "kubernetes:cloud.google.com/v1:ComputeClass",
            {"spec": {"priorities": [{"nodepools": ["by-hand"]}, {"spot": True}]}},
            "spec.nodePoolConfig.serviceAccount",
        ),
        ("gcp:storage/bucket:Bucket", {}, None),
    ],
)
def test_node_account_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)
