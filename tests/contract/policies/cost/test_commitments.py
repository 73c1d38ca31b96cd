"""Nobody commits to years of spending by a deployment."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.cost.commitments import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        ("gcp:container/cluster:Cluster", {}, None),
        (
            "gcp:compute/regionCommitment:RegionCommitment",
            {"plan": "THIRTY_SIX_MONTH"},
            "THIRTY_SIX_MONTH",
        ),
        ("gcp:compute/regionCommitment:RegionCommitment", {"plan": UNKNOWN}, "unknown"),
    ],
)
def test_commitments_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)


def test_a_commitment_that_is_meant_is_named_in_the_settings(judge):
    kind = "gcp:compute/regionCommitment:RegionCommitment"
    assert judge(RULE, kind, {"plan": "TWELVE_MONTH"}, config={"allowed": ["it"]}) == []
