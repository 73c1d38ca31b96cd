"""What enforces network policies."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.network.dataplane import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        ("gcp:container/cluster:Cluster", {"datapathProvider": "ADVANCED_DATAPATH"}, None),
        (
            "gcp:container/cluster:Cluster",
            {"datapathProvider": "LEGACY_DATAPATH"},
            "LEGACY_DATAPATH",
        ),
        ("gcp:container/cluster:Cluster", {}, "datapathProvider"),
        ("gcp:container/cluster:Cluster", {"enableAutopilot": True}, None),
        ("gcp:container/cluster:Cluster", {"datapathProvider": UNKNOWN}, "unknown"),
    ],
)
def test_dataplane_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)
