"""Authorities and certificates of clients, for tests."""

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_SIGNS = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


@dataclass(frozen=True)
class Client:
    """A certificate and its key."""

    certificate_file: Path
    key_file: Path

    @property
    def der(self) -> bytes:
        """The certificate in DER format."""
        return ssl.PEM_cert_to_DER_cert(self.certificate_file.read_text())


class Authority:
    """An authority that issues certificates of clients."""

    def __init__(self, folder: Path, name: str = "clients") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        basic = x509.BasicConstraints(ca=True, path_length=None)
        made = (
            _builder(self._name, self._name, self._key)
            .add_extension(basic, critical=True)
            .add_extension(_SIGNS, critical=True)
        )
        self.certificate = _pem(made.sign(self._key, hashes.SHA256()))
        """In PEM format."""

    def issue(
        self,
        name: str,
        spiffe: str,
        dns_names: tuple[str, ...],
        use: x509.ObjectIdentifier | None = ExtendedKeyUsageOID.CLIENT_AUTH,
    ) -> Client:
        """Return the certificate of a client, for a use or for any."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.UniformResourceIdentifier(spiffe), *map(x509.DNSName, dns_names)]
        built = _builder(_name(name), self._name, key).add_extension(
            x509.SubjectAlternativeName(names), critical=False
        )
        if use is not None:
            built = built.add_extension(x509.ExtendedKeyUsage([use]), critical=False)
        made = built.sign(self._key, hashes.SHA256())
        client = Client(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        client.certificate_file.write_text(_pem(made))
        client.key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return client

    def stranger(self, name: str, spiffe: str, dns_names: tuple[str, ...]) -> Client:
        """Return such a certificate from an authority with the same name and another key."""
        folder = self._folder / "stranger"
        folder.mkdir(exist_ok=True)
        return Authority(folder).issue(name, spiffe, dns_names)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
    )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
