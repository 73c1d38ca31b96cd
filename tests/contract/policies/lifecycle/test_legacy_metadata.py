"""Nodes answer no questions of the kind that needs no header."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.lifecycle.legacy_metadata import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        (
            "gcp:container/nodePool:NodePool",
            {"nodeConfig": {"metadata": {"disable-legacy-endpoints": "true"}}},
            None,
        ),
        ("gcp:container/nodePool:NodePool", {}, "disable-legacy-endpoints"),
        (
            "gcp:container/nodePool:NodePool",
            {"nodeConfig": {"metadata": {"disable-legacy-endpoints": "false"}}},
            "'false'",
        ),
        ("gcp:container/nodePool:NodePool", {"nodeConfig": UNKNOWN}, "unknown"),
    ],
)
def test_legacy_metadata_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)


def test_the_old_endpoints_are_switched_off_and_the_rest_stays(mend):
    props = {"nodeConfig": {"machineType": "x", "metadata": {"a": "b"}}}
    assert mend(RULE, "gcp:container/nodePool:NodePool", props) == {
        "nodeConfig": {
            "machineType": "x",
            "metadata": {"a": "b", "disable-legacy-endpoints": "true"},
        }
    }


def test_a_pool_without_them_is_left_alone(mend):
    props = {"nodeConfig": {"metadata": {"disable-legacy-endpoints": "true"}}}
    assert mend(RULE, "gcp:container/nodePool:NodePool", props) is None
