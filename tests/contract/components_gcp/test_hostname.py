"""The components of a gateway's host name: certificate, authorization and records."""

from typing import Any

import pulumi
import pytest

from gke_inference import DnsFront, GatewayCertificate, GatewayRecord
from twin.providers.gcp.checks.validate import validate_inputs

CERTIFICATE: dict[str, Any] = {
    "certificate_name": "models-example-com",
    "hostname": "models.example.com",
    "location": "us-east5",
    "project": "acme",
    "zone": "example",
}
RECORD: dict[str, Any] = {
    "addresses": {"us-east5": "203.0.113.1"},
    "hostname": "models.example.com",
    "project": "acme",
    "zone": "example",
}
AUTHORIZATION = "gcp:certificatemanager/dnsAuthorization:DnsAuthorization"
ASKED = {
    "data": "1.authorize.certificatemanager.goog.",
    "name": "_acme-challenge_1.models.example.com.",
    "type": "CNAME",
}


@pytest.mark.parametrize(
    ("component", "args", "expected"),
    [
        (GatewayCertificate, {**CERTIFICATE, "all_regions": True}, "must be 'global' with allReg"),
        (
            DnsFront,
            {
                **{key: value for key, value in RECORD.items() if key != "hostname"},
                "exposure": "external",
                "front_name": "front",
                "hostnames": ["models.example.com"],
                "is_cross_region": True,
                "port": 443,
            },
            "must be 'internal' with isCrossRegion",
        ),
    ],
)
def test_what_spans_regions_is_global_and_internal(recorder, component, args, expected):
    with pytest.raises(pulumi.InputPropertyError, match=expected):
        recorder.run(lambda: component("x", args))


@pytest.fixture
def answering(recorder, monkeypatch):
    """Answer with the record that an authorization asks for, as Google does."""
    plain = recorder.new_resource

    def new_resource(args):
        name, outputs = plain(args)
        more = {"dnsResourceRecords": [ASKED]} if args.typ == AUTHORIZATION else {}
        return name, {**outputs, **more}

    monkeypatch.setattr(recorder, "new_resource", new_resource)
    return recorder


def sent(recorder, component: Any, args: dict[str, Any], output: str) -> dict[str, Any]:
    recorder.run(lambda: getattr(component("it", args), output))
    return {seen.name: seen for seen in recorder.registrations if seen.type.startswith("gcp:")}


def test_a_certificate_is_proven_by_the_record_that_its_authorization_asks_for(answering):
    args = {**CERTIFICATE, "zone_project": "acme-dns", "labels": {"env": "prod"}}
    sent(answering, GatewayCertificate, args, "certificate_name")
    authorization = answering.one(AUTHORIZATION).inputs
    assert authorization["type"] == "PER_PROJECT_RECORD"
    assert (authorization["domain"], authorization["location"]) == (
        "models.example.com",
        "us-east5",
    )
    record = answering.one("gcp:dns/recordSet:RecordSet").inputs
    assert record == {
        "managedZone": "example",
        "name": ASKED["name"],
        "project": "acme-dns",
        "rrdatas": [ASKED["data"]],
        "ttl": 300,
        "type": "CNAME",
    }
    certificate = answering.one("gcp:certificatemanager/certificate:Certificate").inputs
    assert certificate["name"] == "models-example-com"
    assert certificate["location"] == "us-east5"
    assert certificate["managed"]["domains"] == ["models.example.com"]
    assert len(certificate["managed"]["dnsAuthorizations"]) == 1
    assert certificate["labels"]["env"] == "prod"


def test_the_zone_is_in_the_project_of_the_gateway_by_default(answering):
    sent(answering, GatewayCertificate, CERTIFICATE, "record_name")
    assert answering.one("gcp:dns/recordSet:RecordSet").inputs["project"] == "acme"


def test_one_region_has_a_plain_record(recorder):
    sent(recorder, GatewayRecord, {**RECORD, "ttl_seconds": 60.0}, "hostname")
    assert recorder.one("gcp:dns/recordSet:RecordSet").inputs == {
        "managedZone": "example",
        "name": "models.example.com.",
        "project": "acme",
        "rrdatas": ["203.0.113.1"],
        "ttl": 60,
        "type": "A",
    }


def test_clients_of_several_regions_get_the_nearest_address(recorder):
    addresses = {"us-east5": "203.0.113.1", "europe-west4": "203.0.113.2"}
    sent(recorder, GatewayRecord, {**RECORD, "addresses": addresses}, "hostname")
    made = recorder.one("gcp:dns/recordSet:RecordSet").inputs
    assert "rrdatas" not in made
    assert made["routingPolicy"] == {
        "geos": [
            {"location": "us-east5", "rrdatas": ["203.0.113.1"]},
            {"location": "europe-west4", "rrdatas": ["203.0.113.2"]},
        ]
    }


def test_the_host_name_is_known_without_the_dot_of_the_record(recorder):
    component: Any = GatewayRecord
    assert recorder.run(lambda: component("it", RECORD).hostname) == "models.example.com"


@pytest.mark.parametrize(
    ("component", "args", "message"),
    [
        (
            GatewayRecord,
            {**RECORD, "addresses": {}},
            "addresses: must have at least 1 entry, got 0",
        ),
        (GatewayRecord, {**RECORD, "ttl_seconds": 4}, "ttlSeconds: must be 5 to 86400, got 4"),
        (GatewayCertificate, {**CERTIFICATE, "ttl_seconds": 4}, "ttlSeconds: must be 5 to 86400"),
        (
            GatewayCertificate,
            {**CERTIFICATE, "ttl_seconds": 1.5},
            "ttlSeconds: must be a whole number, got 1.5",
        ),
    ],
)
def test_a_wrong_input_is_named(recorder, component, args, message):
    with pytest.raises(pulumi.InputPropertyError, match=message.partition(": ")[2]):
        recorder.run(lambda: component("it", args).urn)


@pytest.mark.parametrize(
    ("component", "args", "output"),
    [
        (GatewayCertificate, CERTIFICATE, "certificate_name"),
        (GatewayRecord, RECORD, "hostname"),
        (
            GatewayRecord,
            {**RECORD, "addresses": {"us-east5": "203.0.113.1", "us-west1": "203.0.113.2"}},
            "hostname",
        ),
    ],
)
def test_everything_that_is_sent_is_an_input_of_the_provider(answering, component, args, output):
    for seen in sent(answering, component, args, output).values():
        assert not validate_inputs(seen.type, seen.inputs), seen.type
