"""The host name of a stack: what it makes for it, and in which order."""

import json
from typing import Any

from infra.deploy.program import deploy
from infra.reading.load import parse, platform_of
from infra.stack import Dns, Platform
from tests.contract.infra.cloud import CloudRecorder
from tests.shipped_stacks import EXAMPLES

EXAMPLE = EXAMPLES / "three-regions" / "Pulumi.three-regions.yaml"


def stack(**changes: Any) -> Platform:
    """Three regions with a gateway in each, and with some other words."""
    three = parse(json.dumps(platform_of(EXAMPLE)))
    plain = {"front": None, "issue_certificate": False, "dns": None}
    gateway = three.gateway.model_copy(update={**plain, **changes})
    return three.model_copy(update={"gateway": gateway})


def made(cloud: CloudRecorder, **changes: Any) -> dict[str, list[dict[str, Any]]]:
    """Return the inputs of what the stack makes, by type."""
    cloud.run(lambda: deploy(stack(**changes)))
    found: dict[str, list[dict[str, Any]]] = {}
    for seen in cloud.registrations:
        found.setdefault(seen.type, []).append(seen.inputs)
    return found


def test_a_stack_that_names_a_zone_makes_one_record_for_all_regions(cloud):
    found = made(cloud, dns=Dns(zone="example", project="acme-dns"))
    (record,) = found["gcp:dns/recordSet:RecordSet"]
    assert (record["name"], record["type"]) == ("models.example.com.", "A")
    assert (record["managedZone"], record["project"]) == ("example", "acme-dns")
    geos = record["routingPolicy"]["geos"]
    assert [each["location"] for each in geos] == ["us-central1", "europe-west4", "asia-northeast1"]
    assert "gcp:certificatemanager/certificate:Certificate" not in found


def test_a_stack_that_issues_its_certificate_makes_one_in_each_region(cloud):
    dns = Dns(zone="example", ttl_seconds=60)
    found = made(cloud, dns=dns, issue_certificate=True)
    certificates = found["gcp:certificatemanager/certificate:Certificate"]
    assert sorted(each["location"] for each in certificates) == [
        "asia-northeast1",
        "europe-west4",
        "us-central1",
    ]
    assert {each["name"] for each in certificates} == {"models-example-com"}
    records = found["gcp:dns/recordSet:RecordSet"]
    assert sorted(each["type"] for each in records) == ["A", "CNAME", "CNAME", "CNAME"]
    assert {each["ttl"] for each in records} == {60}
    assert {each["project"] for each in records} == {"acme-inference-local"}
