"""Traffic between pods of one node is seen by the network, too."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.network.intranode import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        ("gcp:container/cluster:Cluster", {"enableIntranodeVisibility": True}, None),
        ("gcp:container/cluster:Cluster", {"enableAutopilot": True}, None),
        ("gcp:container/cluster:Cluster", {}, "enableIntranodeVisibility"),
        ("gcp:container/cluster:Cluster", {"enableIntranodeVisibility": UNKNOWN}, "unknown"),
    ],
)
def test_intranode_visibility_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)
