"""No key of a service account can be copied, as there is none."""

import pytest

from policies.rules.identity.account_keys import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        ("gcp:container/cluster:Cluster", {}, None),
        ("gcp:serviceaccount/key:Key", {}, "must not be made"),
    ],
)
def test_account_keys_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)
