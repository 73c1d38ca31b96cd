"""Nothing in the network is open to everybody."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.network.open_firewall import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        (
            "gcp:compute/firewall:Firewall",
            {"allows": [{"protocol": "tcp"}], "sourceRanges": ["35.191.0.0/16"]},
            None,
        ),
        (
            "gcp:compute/firewall:Firewall",
            {"allows": [{"protocol": "tcp"}], "direction": "EGRESS"},
            None,
        ),
        (
            "gcp:compute/firewall:Firewall",
            {"allows": [{"protocol": "tcp"}], "sourceTags": ["a"]},
            None,
        ),
        (
            "gcp:compute/firewall:Firewall",
            {"allows": [{"protocol": "tcp"}], "sourceRanges": ["0.0.0.0/0"]},
            "0.0.0.0/0",
        ),
        ("gcp:compute/firewall:Firewall", {"allows": [{"protocol": "tcp"}]}, "everybody"),
        (
            "gcp:compute/firewall:Firewall",
            {"allows": [{"protocol": "tcp"}], "sourceRanges": UNKNOWN},
            "unknown",
        ),
    ],
)
def test_open_firewall_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)
