"""Every bill can be traced to an environment and a part of the platform."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.cost.cost_labels import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        (
            "gcp:container/cluster:Cluster",
            {"resourceLabels": {"env": "dev", "managed-by": "x"}},
            None,
        ),
        ("gcp:storage/bucket:Bucket", {"labels": {"env": "dev", "managed-by": "x"}}, None),
        ("gcp:storage/bucket:Bucket", {"labels": {"env": "dev"}}, "managed-by"),
        (
            "gcp:container/cluster:Cluster",
            {"labels": {"managed-by": "x"}, "resourceLabels": {"env": "dev"}},
            "resourceLabels.managed-by",
        ),
        ("gcp:storage/bucket:Bucket", {"labels": UNKNOWN}, "unknown"),
    ],
)
def test_cost_labels_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)


def test_missing_labels_are_added_and_those_there_are_stay(mend):
    props = {"labels": {"env": "live", "team": "chat"}, "name": "b"}
    assert mend(RULE, "gcp:storage/bucket:Bucket", props) == {
        "labels": {"env": "live", "managed-by": "pulumi", "team": "chat"},
        "name": "b",
    }
    assert mend(RULE, "gcp:container/cluster:Cluster", {}) == {
        "resourceLabels": {"env": "dev", "managed-by": "pulumi"}
    }


def test_what_has_its_labels_is_left_alone(mend):
    props = {"labels": {"env": "live", "managed-by": "x"}}
    assert mend(RULE, "gcp:storage/bucket:Bucket", props) is None
    assert mend(RULE, "gcp:compute/network:Network", {}) is None
