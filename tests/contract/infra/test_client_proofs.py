"""Proofs that a load balancer checks: client certificates, and Identity-Aware Proxy."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from infra.reading.load import parse, platform_of
from infra.stack.problems import StackError
from tests.contract.infra.cloud import Deployed
from tests.shipped_stacks import EXAMPLES

SPIFFE = "spiffe://example.org/lab"
UNREADABLE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


def authority(
    *, ca: bool = True, usage: str = "key_cert_sign", use: str = "CLIENT_AUTH", days: int = 1
) -> str:
    """Return the certificate of an authority, in PEM format."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "lab")])
    no_usages = dict.fromkeys(USAGES, False)
    return (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=9))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca, None), critical=True)
        .add_extension(x509.KeyUsage(**{**no_usages, usage: True}), critical=True)
        .add_extension(x509.ExtendedKeyUsage([getattr(ExtendedKeyUsageOID, use)]), critical=False)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
        .decode()
    )


USAGES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)
PEM = authority()


def document(name: str = "three-regions") -> dict[str, Any]:
    return platform_of(EXAMPLES / name / f"Pulumi.{name}.yaml")


def refused(found: dict[str, Any]) -> str:
    with pytest.raises(StackError) as error:
        parse(json.dumps(found))
    return str(error.value)


@pytest.fixture
def made(deployed: Deployed):
    """Return what a stack registers, by type."""
    return lambda found: deployed(parse(json.dumps(found))).by_type()


def with_certificates(**changes: Any) -> dict[str, Any]:
    """A stack with client certificates, and changes of their settings."""
    found = document()
    found["gateway"].pop("publish")
    certificates = {"authorities": [PEM], "teams": {SPIFFE: "search"}}
    found["clients"] = {"teams": {"search": {}}, "certificates": certificates | changes}
    return found


def test_a_global_front_validates_client_certificates_and_describes_them_to_the_gates(made):
    found = made(with_certificates())
    (trust,) = found["TrustConfig"]
    assert trust["trustStores"] == [{"trustAnchors": [{"pemCertificate": PEM}]}]
    (policy,) = found["ServerTlsPolicy"]
    assert policy["mtlsPolicy"] == {
        "clientValidationMode": "ALLOW_INVALID_OR_MISSING_CLIENT_CERT",
        "clientValidationTrustConfig": "front-clients-id",
    }
    (proxy,) = found["TargetHttpsProxy"]
    assert proxy["serverTlsPolicy"] == "front-clients-id"
    (backend,) = found["BackendService"]
    headers = backend["customRequestHeaders"]
    assert "X-Client-Cert-SPIFFE: id={client_cert_spiffe_id}" in headers
    texts = [header.partition(": ")[2] for header in headers[2:]]
    assert not [text for text in texts if text.startswith("{")]  # a variable can be empty
    gates = [
        json.loads(each["data"]["callout.yaml"])
        for each in found["ConfigMap"]
        if "callout.yaml" in each["data"]
    ]
    ranges = {name: region["ranges"]["published"] for name, region in document()["regions"].items()}
    networks = {gate["region"]: gate["certificates"]["from"] for gate in gates}
    assert networks == {name: [published] for name, published in ranges.items()}


PEOPLE = {
    "backend_service": "1234567890123456789",
    "hostname": "chat.example.com",
    "members": ["group:ml@example.com"],
    "team": "search",
}


def with_people(**changes: Any) -> dict[str, Any]:
    """A stack with people who sign in, and changes of their settings."""
    found = document()
    found["gateway"]["issue_certificate"] = False
    found["clients"] = {"teams": {"search": {}}, "people": PEOPLE | changes}
    return found


def test_people_sign_in_under_a_hostname_of_their_own_and_programs_do_not(made):
    found = made(with_people())
    services = {each["name"]: each for each in found["BackendService"]}
    (people,) = [name for name in services if name.endswith("-people")]
    assert services[people]["iap"] == {"enabled": True}
    assert services[people]["backends"] == services[people.removesuffix("-people")]["backends"]
    assert "iap" not in services[people.removesuffix("-people")]
    (url_map,) = [each for each in found["URLMap"] if "hostRules" in each]
    assert url_map["hostRules"][1] == {"hosts": ["chat.example.com"], "pathMatcher": "people"}
    matcher = url_map["pathMatchers"][1]
    assert matcher["defaultService"] == "front-people-id"
    assert matcher["defaultRouteAction"] == {
        "urlRewrite": {"hostRewrite": document()["gateway"]["hostname"]}
    }
    (member,) = found["WebBackendServiceIamMember"]
    assert (member["member"], member["role"], member["webBackendService"]) == (
        "group:ml@example.com",
        "roles/iap.httpsResourceAccessor",
        people,
    )
    assert "iap.googleapis.com" in [
        each["service"] for each in found["Service"] if "service" in each
    ]


def gates_of(found: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [
        json.loads(each["data"]["callout.yaml"])
        for each in found["ConfigMap"]
        if "callout.yaml" in each["data"]
    ]


def test_a_gate_accepts_the_tokens_of_people_for_their_backend_service_only(made):
    gates = gates_of(made(with_people()))
    assert len(gates) == len(document()["regions"])
    number = document()["project_number"]
    for gate in gates:
        (issuer,) = gate["jwt"]
        assert issuer["audiences"] == [
            f"/projects/{number}/global/backendServices/1234567890123456789"
        ]
        assert (issuer["claim"], issuer["header"]) == ("iss", "x-goog-iap-jwt-assertion")
        assert issuer["teams"] == {issuer["issuer"]: "search"}


def test_before_their_backend_service_exists_a_gate_accepts_no_tokens_of_people(made):
    gates = gates_of(made(with_people(backend_service=None)))
    assert [gate["jwt"] for gate in gates] == [[]] * len(document()["regions"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"members": ["allUsers"]}, "people.members[0] must be user:, group: or serviceAccount:"),
        ({"members": ["ada@example.com"]}, "people.members[0] must be user:, group: or"),
        (
            {"members": ["group:ml@example.com"] * 2},
            "people.members[1] must not repeat a member, got 'group:ml@example.com' twice",
        ),
        ({"backend_service": "front-people"}, "clients.people.backend_service"),
        ({"team": "lab"}, "clients.people.team must be one of search, got 'lab'"),
        ({"hostname": "models.example.com"}, "people.hostname must differ from gateway.hostname"),
    ],
)
def test_settings_of_people_are_checked(change, message):
    assert parse(json.dumps(with_people()))
    assert message in refused(with_people(**change))


def test_people_need_a_global_front_with_a_certificate_for_both_hostnames():
    issued = with_people()
    issued["gateway"]["issue_certificate"] = True
    assert "people.hostname must not be set when gateway.issue_certificate" in refused(issued)
    nearest = document("nearest-region")
    nearest["clients"]["people"] = PEOPLE | {"team": next(iter(nearest["clients"]["teams"]))}
    assert "clients.people must not be set unless gateway.front is global" in refused(nearest)
    twice = with_people()
    twice["clients"]["issuers"] = with_iap()["clients"]["issuers"]
    twice["clients"]["issuers"][0]["teams"] = {"ada": "search"}
    message = "issuers[0].header must not be x-goog-iap-jwt-assertion when clients.people is set"
    assert message in refused(twice)


@pytest.mark.parametrize(
    "path",
    ["", "/", "/lab/", "//lab", "/../lab", "/lab/.", "/l%61b", "/lab?a=b", f"/{'x' * 2048}"],
)
def test_a_spiffe_id_that_the_load_balancer_does_not_pass_is_refused(path):
    found = with_certificates(teams={f"spiffe://example.org{path}": "search"})
    assert "certificates.teams must be a SPIFFE ID with a path" in refused(found)


def test_spiffe_ids_may_have_every_character_of_the_standard_and_lower_case_trust_domains():
    assert parse(json.dumps(with_certificates(teams={"spiffe://a-b_c.1/...x/A-z_0.9": "search"})))
    upper = with_certificates(teams={"spiffe://Example.org/lab": "search"})
    assert "certificates.teams must be a SPIFFE ID with a path" in refused(upper)


def test_a_front_without_client_certificates_requests_none(made):
    found = made(document())
    assert "ServerTlsPolicy" not in found
    assert "serverTlsPolicy" not in found["TargetHttpsProxy"][0]
    assert "customRequestHeaders" not in found["BackendService"][0]


def test_client_certificates_are_refused_where_nothing_validates_them():
    regional = with_certificates()
    regional["gateway"] = document("nearest-region")["gateway"]
    for region in regional["regions"].values():
        del region["ranges"]["published"]
    where = "clients.certificates must not be set"
    assert f"{where} unless gateway.front is global" in refused(regional)
    shared = with_certificates()
    shared["gateway"]["publish"] = document()["gateway"]["publish"]
    assert f"{where} when gateway.publish is set" in refused(shared)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"authorities": ["file.pem"]}, "authorities[0] must be one certificate in PEM format"),
        ({"authorities": [PEM + PEM]}, "authorities[0] must be one certificate in PEM format"),
        ({"authorities": [UNREADABLE]}, "PEM format, got one that cannot be read"),
        ({"authorities": [authority(ca=False, usage="crl_sign")]}, "must be of an authority"),
        ({"authorities": [authority(usage="crl_sign")]}, "the key usage keyCertSign, got 'CN=lab'"),
        ({"authorities": [authority(use="SERVER_AUTH")]}, "must have clientAuth in its extended"),
        ({"authorities": [authority(days=-1)]}, "must not be expired (its end is"),
        ({"teams": {"CN=lab": "search"}}, "certificates.teams must be a SPIFFE ID with a path"),
        ({"teams": {SPIFFE: "lab"}}, "must be one of search, got 'lab'"),
    ],
)
def test_settings_of_client_certificates_are_checked(change, message):
    assert message in refused(with_certificates(**change))


def with_iap(**changes: Any) -> dict[str, Any]:
    """A stack that accepts tokens of Identity-Aware Proxy, and changes of their issuer."""
    issuer = {
        "audiences": ["/projects/314159265358/global/backendServices/42"],
        "header": "x-goog-iap-jwt-assertion",
        "issuer": "https://cloud.google.com/iap",
        "jwks_uri": "https://www.gstatic.com/iap/verify/public_key-jwk",
    }
    found = document()
    found["clients"] = {"teams": {"search": {}}, "issuers": [issuer | changes]}
    return found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"audiences": ["models"]}, "audiences[0] must be /projects/NUMBER/global/backendServices"),
        ({"issuer": "https://example.com"}, "issuer must be https://cloud.google.com/iap with"),
        ({"jwks_uri": "https://example.com"}, "jwks_uri must be https://www.gstatic.com/iap/"),
    ],
)
def test_tokens_of_identity_aware_proxy_have_its_issuer_and_an_audience(change, message):
    assert parse(json.dumps(with_iap()))
    assert message in refused(with_iap(**change))


def test_tokens_of_identity_aware_proxy_are_refused_where_nothing_adds_them():
    found = with_iap()
    found["gateway"] = document("nearest-region")["gateway"]
    for region in found["regions"].values():
        del region["ranges"]["published"]
    assert "issuers[0].header must not be x-goog-iap-jwt-assertion unless" in refused(found)
