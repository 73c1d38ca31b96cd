"""Samples that nobody looks at are not paid for."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.cost.scrape_interval import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        (
            "kubernetes:monitoring.googleapis.com/v1:PodMonitoring",
            {"spec": {"endpoints": [{"interval": "15s"}, {}]}},
            None,
        ),
        (
            "kubernetes:monitoring.googleapis.com/v1:PodMonitoring",
            {"spec": {"endpoints": [{"interval": "1s"}]}},
            "'1s'",
        ),
        (
            "kubernetes:monitoring.googleapis.com/v1:PodMonitoring",
            {"spec": {"endpoints": [{"interval": "often"}]}},
            "'often'",
        ),
        (
            "kubernetes:monitoring.googleapis.com/v1:PodMonitoring",
            {"spec": {"endpoints": UNKNOWN}},
            "unknown",
        ),
    ],
)
def test_scrape_interval_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)
