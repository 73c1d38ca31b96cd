"""Secrets are encrypted with a key of the project before they are stored."""

import pytest

from policies.rules.data.encrypted_secrets import RULE

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


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
