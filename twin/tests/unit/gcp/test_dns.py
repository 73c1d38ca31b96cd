"""Zones, records and certificates: errors of the twin's cloud, and domain authorization."""

import pytest

from twin.cluster.gateway.named_certificates import is_active
from twin.tests.unit.gcp.conftest import Cloud, Made, Refused
from twin.world.capacity import World

AUTHORIZATION = "gcp:certificatemanager/dnsAuthorization:DnsAuthorization"
CERTIFICATE = "gcp:certificatemanager/certificate:Certificate"
RECORD = "gcp:dns/recordSet:RecordSet"
ZONE = "gcp:dns/managedZone:ManagedZone"


def zone(cloud: Cloud) -> Made:
    inputs = {"name": "models", "dnsName": "example.com.", "description": "of the test"}
    return cloud.create(ZONE, "zone", inputs)


def record(cloud: Cloud, name: str = "models.example.com.", urn: str = "record") -> Made:
    inputs = {
        "managedZone": "models",
        "name": name,
        "rrdatas": ["203.0.113.1"],
        "ttl": 300,
        "type": "A",
    }
    return cloud.create(RECORD, urn, inputs)


def authorization(cloud: Cloud, location: str) -> Made:
    inputs = {"domain": "models.example.com", "location": location, "name": "models"}
    return cloud.create(AUTHORIZATION, f"{location}-authorization", inputs)


def test_a_record_needs_its_zone(cloud: Cloud) -> None:
    with pytest.raises(Refused, match="models"):
        record(cloud)
    zone(cloud)
    assert record(cloud).outputs["rrdatas"] == ["203.0.113.1"]


def test_a_zone_that_the_world_gives_is_there(cloud: Cloud) -> None:
    World(zones=("models",)).save(cloud.paths.capacity_file)
    assert record(cloud).outputs["managedZone"] == "models"


@pytest.mark.parametrize("name", ["models.example.org.", "models-example.com."])
def test_a_record_outside_the_domain_of_its_zone_is_refused(cloud: Cloud, name: str) -> None:
    zone(cloud)
    with pytest.raises(Refused, match="Invalid value for 'entity\\.change\\.additions"):
        record(cloud, name)


def test_two_records_of_one_name_and_type_are_refused(cloud: Cloud) -> None:
    zone(cloud)
    record(cloud)
    with pytest.raises(Refused, match=r"(?i)already.?exists"):
        record(cloud, urn="other")


def test_each_region_asks_for_a_record_of_its_own(cloud: Cloud) -> None:
    east, west = (authorization(cloud, region) for region in ("us-east5", "us-west1"))
    (one,), (other,) = (each.outputs["dnsResourceRecords"] for each in (east, west))
    assert one["type"] == other["type"] == "CNAME"
    assert one["name"] != other["name"]
    assert one["name"].startswith("_acme-challenge_")
    assert one["name"].endswith(".models.example.com.")
    fixed = authorization(cloud, "global").outputs["dnsResourceRecords"][0]
    assert fixed["name"] == "_acme-challenge.models.example.com."


def test_a_managed_certificate_is_active_once_its_record_is_there(cloud: Cloud) -> None:
    zone(cloud)
    proof = authorization(cloud, "us-east5")
    managed = {"dnsAuthorizations": [proof.id], "domains": ["models.example.com"]}
    inputs = {"location": "us-east5", "managed": managed, "name": "models"}
    made = cloud.create(CERTIFICATE, "certificate", inputs)
    assert made.outputs["managed"]["state"] == "PROVISIONING"
    assert not is_active(cloud.paths, "us-east5", "models")
    asked = proof.outputs["dnsResourceRecords"][0]
    answer = {
        "managedZone": "models",
        "name": asked["name"],
        "rrdatas": [asked["data"]],
        "ttl": 300,
        "type": asked["type"],
    }
    cloud.create(RECORD, "proof", answer)
    assert is_active(cloud.paths, "us-east5", "models")
