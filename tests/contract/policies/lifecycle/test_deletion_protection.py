"""Deleting clusters."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.lifecycle.deletion_protection import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        (
            "gcp:container/cluster:Cluster",
            {"resourceLabels": {"env": "prod"}, "deletionProtection": True},
            None,
        ),
        (
            "gcp:container/cluster:Cluster",
            {"resourceLabels": {"env": "prod"}, "deletionProtection": False},
            "deletionProtection",
        ),
        (
            "gcp:container/cluster:Cluster",
            {"resourceLabels": {"env": "prod"}},
            "deletionProtection",
        ),
        (
            "gcp:container/cluster:Cluster",
            {"resourceLabels": {"env": "prod"}, "deletionProtection": UNKNOWN},
            "unknown",
        ),
        (
            "gcp:container/cluster:Cluster",
            {"resourceLabels": {"env": "dev"}, "deletionProtection": False},
            None,
        ),
        (
            "gcp:container/cluster:Cluster",
            {"resourceLabels": UNKNOWN, "deletionProtection": False},
            "unknown",
        ),
        ("gcp:container/cluster:Cluster", {"deletionProtection": False}, None),
    ],
)
def test_deletion_protection_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)


def test_without_a_label_the_stack_says_what_is_production(judge):
    assert judge(RULE, "gcp:container/cluster:Cluster", {}, stack="prod") != []


def test_the_pack_can_be_told_what_counts_as_production(judge):
    props = {"resourceLabels": {"env": "live"}}
    assert judge(RULE, "gcp:container/cluster:Cluster", props) == []
    config = {"productionEnvironments": ["live"]}
    assert judge(RULE, "gcp:container/cluster:Cluster", props, config=config) != []
