"""Accelerators that nobody uses are not paid for."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.cost.idle_accelerators import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        (
            "gcp:container/nodePool:NodePool",
            {
                "nodeConfig": {"machineType": "g2-standard-12"},
                "autoscaling": {"totalMinNodeCount": 0},
            },
            None,
        ),
        (
            "gcp:container/nodePool:NodePool",
            {
                "nodeConfig": {"machineType": "e2-standard-8"},
                "autoscaling": {"totalMinNodeCount": 3},
            },
            None,
        ),
        (
            "gcp:container/nodePool:NodePool",
            {
                "nodeConfig": {
                    "machineType": "ct6e-standard-4t",
                    "reservationAffinity": {"consumeReservationType": "SPECIFIC_RESERVATION"},
                },
                "autoscaling": {"totalMinNodeCount": 2},
            },
            None,
        ),
        (
            "gcp:container/nodePool:NodePool",
            {
                "nodeConfig": {"machineType": "ct6e-standard-4t"},
                "autoscaling": {"totalMinNodeCount": 2},
            },
            "totalMinNodeCount",
        ),
        (
            "gcp:container/nodePool:NodePool",
            {
                "nodeConfig": {
                    "machineType": "n1-standard-8",
                    "guestAccelerators": [{"type": "nvidia-t4"}],
                },
                "autoscaling": {"totalMinNodeCount": 1},
            },
            "totalMinNodeCount",
        ),
        ("gcp:container/nodePool:NodePool", {"nodeConfig": UNKNOWN}, "unknown"),
    ],
)
def test_idle_accelerators_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)
