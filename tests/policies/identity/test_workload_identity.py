"""Where pods get credentials."""

import pytest

from policies.rules.identity.workload_identity import RULE

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


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
