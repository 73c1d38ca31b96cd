"""Rendered resources checked by the provider, with what only `up` can know."""

from typing import Any

from scripts.check.server_side_checks import check_resources
from scripts.shared.preview_states import NOT_KNOWN

RECORD: dict[str, Any] = {
    "inputs": {
        "managedZone": "example-com",
        "name": NOT_KNOWN,
        "rrdatas": [NOT_KNOWN],
        "ttl": 300,
        "type": "CNAME",
    },
    "type": "gcp:dns/recordSet:RecordSet",
    "urn": "urn:pulumi:prod::p::gcp:dns/recordSet:RecordSet::authorization",
}


def test_a_value_that_is_not_known_yet_is_judged_when_it_is():
    assert check_resources([RECORD]) == []
    known = {**RECORD, "inputs": {**RECORD["inputs"], "name": "models.example.com"}}
    (refusal,) = check_resources([known])
    assert refusal.startswith("authorization (gcp:dns/recordSet:RecordSet): ")
    assert "must end with a dot" in refusal
