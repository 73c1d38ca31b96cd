"""Secrets are encrypted with a key of the project before they are stored."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.data.encrypted_secrets import RULE


@pytest.mark.parametrize(
    ("resource_type", "props", "expected", "stack"),
    [
        (
            "gcp:container/cluster:Cluster",
            {"databaseEncryption": {"state": "ENCRYPTED"}},
            None,
            "prod",
        ),
        ("gcp:container/cluster:Cluster", {}, None, "dev"),
        ("gcp:container/cluster:Cluster", {}, "databaseEncryption.state", "prod"),
        ("gcp:container/cluster:Cluster", {"databaseEncryption": UNKNOWN}, "unknown", "prod"),
    ],
)
def test_encrypted_secrets_is_judged(judge, check, resource_type, props, expected, stack):
    check(judge(RULE, resource_type, props, stack=stack), expected)
