"""What happens in a cluster is recorded."""

import pytest

from policies.rules.lifecycle.observed_cluster import RULE

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


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
