"""A zone that fails does not take the control plane with it."""

import pytest

from policies.rules.capacity.regional_cluster import RULE

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


@pytest.mark.parametrize(
    ("resource_type", "props", "expected", "stack"),
    [
        ("gcp:container/cluster:Cluster", {"location": "us-central1"}, None, "prod"),
        ("gcp:container/cluster:Cluster", {"location": "us-central1-b"}, None, "dev"),
        ("gcp:container/cluster:Cluster", {"location": "us-central1-b"}, "us-central1-b", "prod"),
        ("gcp:container/cluster:Cluster", {"location": UNKNOWN}, "unknown", "prod"),
    ],
)
def test_regional_cluster_is_judged(judge, check, resource_type, props, expected, stack):
    check(judge(RULE, resource_type, props, stack=stack), expected)
