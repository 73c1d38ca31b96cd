"""Upgrades come when the owner expects them."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.lifecycle.maintenance_window import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected", "stack"),
    [
        (
            "gcp:container/cluster:Cluster",
            {"maintenancePolicy": {"recurringWindow": {"startTime": "x"}}},
            None,
            "prod",
        ),
        ("gcp:container/cluster:Cluster", {}, None, "dev"),
        ("gcp:container/cluster:Cluster", {}, "maintenancePolicy", "prod"),
        ("gcp:container/cluster:Cluster", {"maintenancePolicy": UNKNOWN}, "unknown", "prod"),
    ],
)
def test_maintenance_window_is_judged(judge, check, resource_type, props, expected, stack):
    check(judge(RULE, resource_type, props, stack=stack), expected)
