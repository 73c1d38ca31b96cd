"""Which certificates a gateway of the twin finds: never more than Google's would."""

from typing import Any

import pytest

from twin.cluster.gateway.named_certificates import is_active, is_wide
from twin.host.paths import TwinPaths
from twin.world.capacity import GivenCertificate, World
from twin.world.store import Record, Store

HOST = "models.example.com"
AUTHORIZATION = "projects/acme/locations/us-east5/dnsAuthorizations/models"
CNAME = {"name": f"_acme-challenge_1.{HOST}.", "type": "CNAME", "data": "x.goog."}
MANAGED = {"dnsAuthorizations": [AUTHORIZATION], "domains": [HOST], "state": "PROVISIONING"}


@pytest.fixture
def paths(tmp_path) -> TwinPaths:
    return TwinPaths(tmp_path)


def put(paths: TwinPaths, kind: str, resource_id: str, **outputs: Any) -> None:
    name = resource_id.rpartition("/")[2]
    status: Any = outputs.pop("status", "ready")
    inputs: Any = outputs.pop("inputs", {})
    record = Record(
        f"gcp:{kind}",
        resource_id,
        name,
        "acme",
        f"urn:{resource_id}",
        status,
        True,
        inputs,
        outputs,
        0.0,
    )
    paths.cloud_db.parent.mkdir(parents=True, exist_ok=True)
    Store(paths.cloud_db).add(record, [])


def certificate(paths: TwinPaths, location: str = "us-east5", **outputs: Any) -> None:
    put(
        paths,
        "certificatemanager/certificate:Certificate",
        f"projects/acme/locations/{location}/certificates/models",
        location=location,
        **outputs,
    )


def authorize(paths: TwinPaths) -> None:
    kind = "certificatemanager/dnsAuthorization:DnsAuthorization"
    put(paths, kind, AUTHORIZATION, dnsResourceRecords=[CNAME])


def write_record(paths: TwinPaths, data: str = "x.goog.") -> None:
    outputs = {"name": CNAME["name"], "type": "CNAME", "rrdatas": [data], "managedZone": "z"}
    put(paths, "dns/recordSet:RecordSet", "projects/acme/managedZones/z/rrsets/r", **outputs)


def test_a_certificate_that_nobody_made_is_not_found(paths):
    assert not is_active(paths, "us-east5", "models")


@pytest.mark.parametrize(
    ("region", "is_found"), [("us-east5", True), ("*", True), ("us-*", True), ("us-west1", False)]
)
def test_a_certificate_that_the_world_gives_is_there_in_its_regions(paths, region, is_found):
    given = GivenCertificate(name="models", region=region)
    World(certificates=(given,)).save(paths.capacity_file)
    assert is_active(paths, "us-east5", "models") is is_found
    assert not is_active(paths, "us-east5", "others")


def test_an_uploaded_certificate_of_the_region_serves(paths):
    certificate(paths, selfManaged={"pemCertificate": "x"})
    assert is_active(paths, "us-east5", "models")


@pytest.mark.parametrize("location", ["us-west1", "global"])
def test_a_certificate_of_another_location_is_not_found(paths, location):
    certificate(paths, location)
    assert not is_active(paths, "us-east5", "models")


def test_a_certificate_that_is_being_made_is_not_found(paths):
    certificate(paths, status="creating")
    assert not is_active(paths, "us-east5", "models")


def test_a_managed_certificate_is_active_once_its_record_is_in_a_zone(paths):
    certificate(paths, managed=MANAGED)
    assert not is_active(paths, "us-east5", "models")
    authorize(paths)
    assert not is_active(paths, "us-east5", "models")
    write_record(paths)
    assert is_active(paths, "us-east5", "models")


def test_a_record_with_other_content_proves_nothing(paths):
    certificate(paths, managed=MANAGED)
    authorize(paths)
    write_record(paths, "y.goog.")
    assert not is_active(paths, "us-east5", "models")


@pytest.mark.parametrize(("visibility", "is_proof"), [("public", True), ("private", False)])
def test_a_record_proves_a_domain_in_a_public_zone_only(paths, visibility, is_proof):
    zone = "projects/acme/managedZones/z"
    put(paths, "dns/managedZone:ManagedZone", zone, visibility=visibility)
    certificate(paths, managed=MANAGED)
    authorize(paths)
    write_record(paths)
    assert is_active(paths, "us-east5", "models") is is_proof


@pytest.mark.parametrize(("scope", "is_found"), [("ALL_REGIONS", True), ("DEFAULT", False)])
def test_a_gateway_over_all_regions_takes_a_certificate_for_all_of_them_only(
    paths, scope, is_found
):
    certificate(paths, "global", inputs={"scope": scope}, selfManaged={"pemCertificate": "x"})
    assert is_wide(paths, "models") is is_found


def test_a_managed_certificate_without_an_authorization_is_never_active_in_a_region(paths):
    certificate(paths, managed={"domains": [HOST]})
    assert not is_active(paths, "us-east5", "models")


def test_a_pre_shared_certificate_of_the_region_serves(paths):
    kind = "compute/regionSslCertificate:RegionSslCertificate"
    put(paths, kind, "projects/acme/regions/us-east5/sslCertificates/models", region="us-east5")
    assert is_active(paths, "us-east5", "models")
