"""Where `recover` looks for a resource whose creation did not complete."""

from typing import Any

import pytest

from scripts.backend.identifiers import identifier_of

P = "projects/acme"
COMPUTE = "compute.googleapis.com/compute/v1"
CERTIFICATES = "certificatemanager.googleapis.com/v1"
REGION = {"name": "x", "region": "us-central1"}
PLACE = {"name": "x", "location": "us-central1"}
RING = f"{P}/locations/us-central1/keyRings/ring"


@pytest.mark.parametrize(
    ("kind", "inputs", "expected"),
    [
        (
            "artifactregistry/repository:Repository",
            {"repositoryId": "engines", "location": "us-central1"},
            f"artifactregistry.googleapis.com/v1/{P}/locations/us-central1/repositories/engines",
        ),
        (
            "kms/keyRing:KeyRing",
            PLACE,
            f"cloudkms.googleapis.com/v1/{P}/locations/us-central1/keyRings/x",
        ),
        (
            "kms/cryptoKey:CryptoKey",
            {"name": "x", "keyRing": RING},
            f"cloudkms.googleapis.com/v1/{RING}/cryptoKeys/x",
        ),
        (
            "compute/globalAddress:GlobalAddress",
            {"name": "x"},
            f"{COMPUTE}/{P}/global/addresses/x",
        ),
        (
            "certificatemanager/certificate:Certificate",
            PLACE,
            f"{CERTIFICATES}/{P}/locations/us-central1/certificates/x",
        ),
        (
            "certificatemanager/certificate:Certificate",
            {"name": "x"},
            f"{CERTIFICATES}/{P}/locations/global/certificates/x",
        ),
        (
            "certificatemanager/dnsAuthorization:DnsAuthorization",
            PLACE,
            f"{CERTIFICATES}/{P}/locations/us-central1/dnsAuthorizations/x",
        ),
        (
            "certificatemanager/certificateMapEntry:CertificateMapEntry",
            {"name": "x", "map": f"{P}/locations/global/certificateMaps/m"},
            f"{CERTIFICATES}/{P}/locations/global/certificateMaps/m/certificateMapEntries/x",
        ),
        (
            "dns/recordSet:RecordSet",
            {"name": "m.example.com.", "type": "A", "managedZone": "z", "project": "acme-dns"},
            "dns.googleapis.com/dns/v1/projects/acme-dns/managedZones/z/rrsets/m.example.com./A",
        ),
        ("compute/sSLPolicy:SSLPolicy", {"name": "x"}, f"{COMPUTE}/{P}/global/sslPolicies/x"),
        (
            "compute/regionSslPolicy:RegionSslPolicy",
            REGION,
            f"{COMPUTE}/{P}/regions/us-central1/sslPolicies/x",
        ),
        (
            "compute/securityPolicy:SecurityPolicy",
            {"name": "x"},
            f"{COMPUTE}/{P}/global/securityPolicies/x",
        ),
        (
            "compute/regionSecurityPolicy:RegionSecurityPolicy",
            REGION,
            f"{COMPUTE}/{P}/regions/us-central1/securityPolicies/x",
        ),
        (
            "compute/globalForwardingRule:GlobalForwardingRule",
            {"name": "x"},
            f"{COMPUTE}/{P}/global/forwardingRules/x",
        ),
        ("compute/uRLMap:URLMap", {"name": "x"}, f"{COMPUTE}/{P}/global/urlMaps/x"),
        (
            "compute/serviceAttachment:ServiceAttachment",
            REGION,
            f"{COMPUTE}/{P}/regions/us-central1/serviceAttachments/x",
        ),
        (
            "filestore/instance:Instance",
            PLACE,
            f"file.googleapis.com/v1/{P}/locations/us-central1/instances/x",
        ),
        (
            "gkehub/membership:Membership",
            {"membershipId": "x"},
            f"gkehub.googleapis.com/v1/{P}/locations/global/memberships/x",
        ),
        (
            "modelarmor/template:Template",
            {"templateId": "x", "location": "us-central1"},
            f"modelarmor.us-central1.rep.googleapis.com/v1/{P}/locations/us-central1/templates/x",
        ),
        (
            "lustre/instance:Instance",
            {"instanceId": "x", "location": "us-central1-a"},
            f"lustre.googleapis.com/v1/{P}/locations/us-central1-a/instances/x",
        ),
        (
            "container/nodePool:NodePool",
            {"name": "x", "cluster": "main", "location": "us-central1"},
            f"container.googleapis.com/v1/{P}/locations/us-central1/clusters/main/nodePools/x",
        ),
        (
            "container/nodePool:NodePool",
            {
                "name": "x",
                "cluster": f"{P}/locations/us-central1/clusters/main",
                "location": "us-central1",
            },
            f"container.googleapis.com/v1/{P}/locations/us-central1/clusters/main/nodePools/x",
        ),
    ],
)
def test_a_resource_is_looked_up_where_google_shows_it(
    kind: str, inputs: dict[str, Any], expected: str
) -> None:
    found = identifier_of(f"gcp:{kind}", inputs, "acme")
    assert found is not None
    assert "/".join(found) == expected


def test_a_resource_whose_name_the_provider_chooses_is_not_looked_up() -> None:
    assert identifier_of("gcp:compute/globalAddress:GlobalAddress", {}, "acme") is None
    assert identifier_of("gcp:monitoring/dashboard:Dashboard", {"name": "x"}, "acme") is None
