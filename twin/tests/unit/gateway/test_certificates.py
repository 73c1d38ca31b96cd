"""Certificates that Google would manage."""

import ssl

import pytest
from cryptography import x509

from twin.cluster.gateway.translation.certificates import managed_certificate
from twin.cluster.gateway.translation.model import Certificate
from twin.cluster.gateway.translation.translate import translate
from twin.host.pki import make_authority
from twin.tests.unit.gateway.builders import conditions, gateway, snapshot


def test_a_certificate_is_for_its_host_and_address_and_is_kept(tmp_path):
    make_authority(tmp_path, "ca")
    first = managed_certificate(tmp_path / "ca", tmp_path / "c", "m", "*.example.com", "127.32.0.1")
    again = managed_certificate(tmp_path / "ca", tmp_path / "c", "m", "*.example.com", "127.32.0.1")
    assert first == again
    found = x509.load_pem_x509_certificate(first.chain.encode())
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["*.example.com"]
    assert [str(a) for a in names.get_values_for_type(x509.IPAddress)] == ["127.32.0.1"]
    (key,) = (tmp_path / "c").glob("*.key")
    assert key.stat().st_mode & 0o077 == 0
    context = ssl.create_default_context()
    context.load_cert_chain(*(tmp_path / "c").glob("*.crt"), keyfile=key)


def https(**options):
    listener = {
        "name": "https",
        "protocol": "HTTPS",
        "port": 443,
        "hostname": "m.example.com",
        "tls": {"options": options},
    }
    return gateway(listeners=[listener])


@pytest.mark.parametrize("option", ["cert-manager-certs", "pre-shared-certs"])
def test_certificates_are_named_in_the_options_of_a_listener(option):
    asked = []

    def lookup(*arguments):
        asked.append(arguments)
        return Certificate(arguments[0], "key")

    gw = https(**{f"networking.gke.io/{option}": "a, b"})
    found = translate(snapshot(gw, certificate_named=lookup)).gateways["ns", "gw"]
    assert [c.chain for c in found.listeners[0].certificates] == ["a", "b"]
    assert asked[0] == ("a", "m.example.com", "127.0.0.1")


def test_a_certificate_that_is_not_there_leaves_its_listener_out():
    gw = https(**{"networking.gke.io/cert-manager-certs": "gone"})
    found = translate(snapshot(gw))
    assert found.gateways["ns", "gw"].listeners == ()
    assert conditions(found, "Gateway", "gw")["Accepted"] == "ListenersNotValid"
    assert conditions(found, "Gateway", "gw")["Programmed"] == "!Invalid"
