"""Samples that nobody looks at are not paid for."""

import pytest

from policies.rules.cost.scrape_interval import RULE

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


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
