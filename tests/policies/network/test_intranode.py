"""Traffic between pods of one node is seen by the network, too."""

import pytest

from policies.rules.network.intranode import RULE

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


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
