"""Where pods get credentials."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.identity.workload_identity import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        (
            "gcp:container/cluster:Cluster",
            {"workloadIdentityConfig": {"workloadPool": "p.svc.id.goog"}},
            None,
        ),
        ("gcp:container/cluster:Cluster", {"workloadIdentityConfig": {}}, "workloadPool"),
        ("gcp:container/cluster:Cluster", {}, "workloadPool"),
        ("gcp:container/cluster:Cluster", {"enableAutopilot": True}, None),
        ("gcp:container/cluster:Cluster", {"workloadIdentityConfig": UNKNOWN}, "unknown"),
        (
            "gcp:container/nodePool:NodePool",
            {"nodeConfig": {"workloadMetadataConfig": {"mode": "GKE_METADATA"}}},
            None,
        ),
        (
            "gcp:container/nodePool:NodePool",
            {"nodeConfig": {"workloadMetadataConfig": {"mode": "GCE_METADATA"}}},
            "GKE_METADATA",
        ),
        ("gcp:container/nodePool:NodePool", {}, "workloadMetadataConfig.mode"),
        (
            "gcp:container/nodePool:NodePool",
            {"nodeConfig": {"workloadMetadataConfig": {"mode": UNKNOWN}}},
            "unknown",
        ),
    ],
)
def test_workload_identity_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)
