"""Google-managed certificates, issued by the twin's certificate authority, which clients trust."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from twin.cluster.gateway.translation.model import Certificate
from twin.host.pki import read_authority
from twin.host.private_files import write_private

_VALID = datetime.timedelta(days=90)
_RENEW = datetime.timedelta(days=30)


def managed_certificate(
    authority: Path, folder: Path, name: str, hostname: str, address: str
) -> Certificate:
    """Return the certificate with a name, issued on first use and renewed before it expires.

    Args:
        authority: path of the authority's files, without suffix.
        folder: folder of the certificates.
        name: name of the certificate in Certificate Manager.
        hostname: host name or wildcard; empty if the listener has none.
        address: address of the gateway, which the certificate also covers.
    """
    chain = folder / f"{name}--{(hostname or address).replace('*', '_')}.crt"
    key = chain.with_suffix(".key")
    if not _is_fresh(chain) or not key.exists():
        folder.mkdir(parents=True, exist_ok=True)
        certificate, private = _issue(authority, hostname, address)
        write_private(key, private)
        chain.write_bytes(certificate)
    return Certificate(chain.read_text(), key.read_text())


def _is_fresh(chain: Path) -> bool:
    if not chain.exists():
        return False
    ends = x509.load_pem_x509_certificate(chain.read_bytes()).not_valid_after_utc
    return ends - datetime.datetime.now(datetime.UTC) > _RENEW


def _issue(authority: Path, hostname: str, address: str) -> tuple[bytes, bytes]:
    issuer, issuer_key = read_authority(authority)
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    names: list[x509.GeneralName] = [x509.IPAddress(ipaddress.ip_address(address))]
    if hostname:
        names.append(x509.DNSName(hostname))
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hostname or address)])
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier),
            critical=False,
        )
        .sign(issuer_key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return certificate.public_bytes(serialization.Encoding.PEM), private
