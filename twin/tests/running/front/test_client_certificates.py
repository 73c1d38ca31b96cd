"""Clients with certificates at a global load balancer, and what a gateway's program sees."""

import base64
import hashlib
import http.client
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from twin.cluster.gateway.translation.certificates import managed_certificate
from twin.front import process
from twin.front.process import FrontTier
from twin.host.paths import TwinPaths
from twin.host.pki import make_authority
from twin.host.ports import free_port
from twin.tests.client_certificates import Authority, Client
from twin.tests.eventually import eventually
from twin.tests.fronts import ADDRESS, REGIONS, make_front
from twin.tests.running.gateway import house
from twin.tests.running.gateway.house import House
from twin.tests.running.gateway.processors import headers_of
from twin.tests.unit.gcp.conftest import Cloud

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(180)]
NAMES = ("lab.example.org", "spare.example.org")
SPIFFE = "spiffe://example.org/lab"
FORGED = {
    "X-Client-Cert-Present": "true",
    "X-Client-Cert-Chain-Verified": "true",
    "X-Client-Cert-SPIFFE": SPIFFE,
    "X-Twin-Published": f"{house.ADDRESS}=198.51.100.99",
}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def front(
    gateway: House, tmp_path: Path, authority: Authority, monkeypatch: Any
) -> Iterator[dict[str, int]]:
    """Ports of load balancers over the gateway, by client validation mode."""
    del gateway

    def certificate(tier: FrontTier, _records: Any, _name: str, address: str) -> Any:
        return managed_certificate(
            tmp_path / "ca", tier.folder / "certificates", "models", "models.example.com", address
        )

    make_authority(tmp_path, "ca")
    monkeypatch.setattr(FrontTier, "_certificate", certificate)
    modes = ("ALLOW_INVALID_OR_MISSING_CLIENT_CERT", "REJECT_INVALID")
    ports: dict[str, int] = dict(zip(modes, (free_port(), free_port()), strict=True))
    paths = TwinPaths(tmp_path / "twin")
    paths.create()
    make_front(
        Cloud(paths),
        dict.fromkeys(REGIONS[:1], house.ADDRESS),
        house.PORT,
        validating={ports[mode]: mode for mode in modes},
        authority=authority.certificate,
    )
    try:
        FrontTier(paths).reconcile()
        yield ports
    finally:
        process.stop(paths)


def ask(port: int, client: Client | None = None, headers: dict[str, str] | None = None) -> int:
    """Send a request with a client's certificate, and return the status; 0 without a connection."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if client is not None:
        context.load_cert_chain(client.certificate_file, client.key_file)
    connection = http.client.HTTPSConnection(ADDRESS, port, timeout=20, context=context)
    try:
        body = json.dumps({"model": "m"})
        sent = {"Content-Type": "application/json", **(headers or {})}
        connection.request("POST", "/v1/completions", body, sent)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


def seen(gateway: House, port: int, client: Client | None = None, **options: Any) -> dict[str, str]:
    """Return the headers of a certificate that the gateway's program sees, without their prefix."""
    assert eventually(lambda: ask(port, client, **options) == 200, 20)
    gateway.guard.forget()
    assert ask(port, client, **options) == 200
    found = headers_of(gateway.guard.first("request_headers"))
    prefix = "x-client-cert-"
    described = {
        name.removeprefix(prefix): text for name, text in found.items() if name.startswith(prefix)
    }
    return {**described, "from": found["x-forwarded-for"].split(",")[-2]}


def test_a_verified_certificate_is_described_and_others_are_marked(gateway, front, authority):
    port = front["ALLOW_INVALID_OR_MISSING_CLIENT_CERT"]
    client = authority.issue("lab", SPIFFE, NAMES)
    digest = hashlib.sha256(client.der).digest()
    assert seen(gateway, port, client) == {
        "present": "true",
        "chain-verified": "true",
        "error": "error=",
        "spiffe": f"id={SPIFFE}",
        "dnsname-sans": "names="
        + ",".join(base64.b64encode(name.encode()).decode() for name in NAMES),
        "hash": "sha256=" + base64.b64encode(digest).decode(),
        "from": "10.3.0.2",
    }
    stranger = seen(gateway, port, authority.stranger("lab", SPIFFE, NAMES))
    assert (stranger["present"], stranger["chain-verified"]) == ("true", "false")
    assert stranger["error"] == "error=client_cert_validation_failed"
    for use in (ExtendedKeyUsageOID.SERVER_AUTH, None):
        server = seen(gateway, port, authority.issue("server", SPIFFE, NAMES, use))
        assert (server["chain-verified"], server["error"]) == (
            "false",
            "error=client_cert_chain_invalid_eku",
        )


def test_identities_of_a_certificate_that_are_too_long_or_wrong_are_left_out(
    gateway, front, authority
):
    port = front["ALLOW_INVALID_OR_MISSING_CLIENT_CERT"]
    many = tuple(f"{at}.{'x' * 40}.example.org" for at in range(9))
    long = seen(gateway, port, authority.issue("long", f"{SPIFFE}/{'x' * 2048}", many))
    assert (long["chain-verified"], long["spiffe"], long["dnsname-sans"]) == (
        "true",
        "id=",
        "names=",
    )
    assert long["error"] == (
        "error=client_cert_spiffe_id_exceeded_size_limit,"
        "client_cert_dnsname_sans_exceeded_size_limit"
    )
    for at, wrong in enumerate(("spiffe://Example.org/lab", "spiffe://example.org", f"{SPIFFE}/")):
        found = seen(gateway, port, authority.issue(f"wrong-{at}", wrong, NAMES))
        assert (found["spiffe"], found["error"]) == ("id=", "error=")


def test_what_a_client_writes_about_its_certificate_is_replaced(gateway, front):
    port = front["ALLOW_INVALID_OR_MISSING_CLIENT_CERT"]
    assert seen(gateway, port, headers=FORGED) == {
        "present": "false",
        "chain-verified": "false",
        "error": "error=client_cert_not_provided",
        "spiffe": "id=",
        "dnsname-sans": "names=",
        "hash": "sha256=",
        "from": "10.3.0.2",
    }


def test_a_policy_can_refuse_connections_without_a_valid_certificate(gateway, front, authority):
    port = front["REJECT_INVALID"]
    client = authority.issue("lab", SPIFFE, NAMES)
    assert seen(gateway, port, client)["chain-verified"] == "true"
    assert ask(port) == 0
    assert ask(port, authority.stranger("lab", SPIFFE, NAMES)) == 0
    for use in (ExtendedKeyUsageOID.SERVER_AUTH, None):
        assert ask(port, authority.issue("server", SPIFFE, NAMES, use)) in (0, 400)


def test_only_a_global_load_balancer_comes_from_the_published_range(gateway):
    source = ("127.0.0.9", 0)
    connection = http.client.HTTPConnection(
        house.ADDRESS, house.PORT, timeout=20, source_address=source
    )
    headers = {"Content-Type": "application/json", **FORGED}
    connection.request("POST", "/v1/completions", json.dumps({"model": "m"}), headers)
    assert connection.getresponse().status == 200
    connection.close()
    found = headers_of(gateway.guard.first("request_headers"))
    assert found["x-forwarded-for"] == f"127.0.0.9,{house.ADDRESS}"
    assert "x-twin-published" not in found
