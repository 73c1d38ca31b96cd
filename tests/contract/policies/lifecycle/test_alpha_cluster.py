"""Clusters are not made of alpha features, which are deleted after 30 days."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.lifecycle.alpha_cluster import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        ("gcp:container/cluster:Cluster", {}, None),
        ("gcp:container/cluster:Cluster", {"enableKubernetesAlpha": True}, "enableKubernetesAlpha"),
        ("gcp:container/cluster:Cluster", {"enableKubernetesAlpha": UNKNOWN}, "unknown"),
    ],
)
def test_alpha_cluster_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)
