"""The certificate of an endpoint, looked at in a real handshake."""

import ssl
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from scripts.accept.endpoint import certificate, certificates
from scripts.accept.row import Subject, Verdict

HOST = "models.example.com"
SUBJECT = Subject("certificate", "us-central1", "trusted")


@pytest.fixture
def served(tmp_path):
    """Start a server with a certificate that was just made; return its port and who signed it."""
    servers: list[ThreadingHTTPServer] = []

    def start(host: str = HOST, days: int = 30) -> tuple[int, ssl.SSLContext]:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        ends = datetime.now(UTC) + timedelta(days=days)
        made = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(1)
            .not_valid_before(ends - timedelta(days=90))
            .not_valid_after(ends)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(key, hashes.SHA256())
        )
        pem = made.public_bytes(serialization.Encoding.PEM)
        file = tmp_path / f"{len(servers)}.pem"
        file.write_bytes(
            pem
            + key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return int(server.server_address[1]), ssl.create_default_context(cadata=pem.decode())

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_a_trusted_certificate_for_the_host_is_met_with_its_end(served):
    port, trust = served()
    row = certificate(SUBJECT, "127.0.0.1", port, HOST, trust)
    assert row.verdict is Verdict.MET
    assert row.measured.startswith(f"trusted, for {HOST}, expires ")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"host": "other.example.com"}, "Hostname mismatch"),
        ({"days": -1}, "certificate has expired"),
    ],
)
def test_a_certificate_of_another_host_or_an_old_one_is_not_met(served, options, says):
    port, trust = served(**options)
    row = certificate(SUBJECT, "127.0.0.1", port, HOST, trust)
    assert row.verdict is Verdict.NOT_MET
    assert says in row.measured


def test_a_certificate_that_nobody_signed_is_not_met(served):
    port, _ = served()
    row = certificate(SUBJECT, "127.0.0.1", port, HOST, ssl.create_default_context())
    assert row.verdict is Verdict.NOT_MET
    assert "self-signed certificate" in row.measured


def test_an_endpoint_that_does_not_listen_is_not_met(fake):
    port = fake.gateway.port
    fake.gateway.close()
    row = certificate(SUBJECT, "127.0.0.1", port, HOST, ssl.create_default_context())
    assert row.measured.startswith(f"no connection to 127.0.0.1:{port}: ")


def test_an_endpoint_over_http_has_no_certificate_to_check(platform):
    (row,) = certificates(platform)
    assert (row.verdict, row.is_unseen) == (Verdict.NOT_CHECKED, False)
