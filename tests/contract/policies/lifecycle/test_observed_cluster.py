"""What happens in a cluster is recorded."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.lifecycle.observed_cluster import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        (
            "gcp:container/cluster:Cluster",
            {
                "loggingConfig": {"enableComponents": ["SYSTEM_COMPONENTS"]},
                "monitoringConfig": {"enableComponents": ["SYSTEM_COMPONENTS"]},
            },
            None,
        ),
        (
            "gcp:container/cluster:Cluster",
            {"loggingConfig": {"enableComponents": ["SYSTEM_COMPONENTS"]}},
            "monitoringConfig",
        ),
        (
            "gcp:container/cluster:Cluster",
            {
                "loggingConfig": {"enableComponents": ["WORKLOADS"]},
                "monitoringConfig": {"enableComponents": ["SYSTEM_COMPONENTS"]},
            },
            "loggingConfig",
        ),
        ("gcp:container/cluster:Cluster", {"loggingConfig": UNKNOWN}, "unknown"),
    ],
)
def test_observed_cluster_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)
