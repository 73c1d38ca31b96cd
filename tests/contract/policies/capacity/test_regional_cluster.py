"""A zone that fails does not take the control plane with it."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.capacity.regional_cluster import RULE


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
