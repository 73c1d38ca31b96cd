"""Clusters are not made of alpha features, which are deleted after 30 days."""

import pytest

from policies.rules.lifecycle.alpha_cluster import RULE

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


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
