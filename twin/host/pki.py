"""The twin's certificate authority and its certificates.

They have two purposes: public trust for GKE's control-plane DNS endpoints (through `SSL_CERT_FILE`,
see `TwinPaths.ca_bundle`), and the cluster's own keys.
"""

import datetime
import ipaddress
import os
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from twin.host.paths import TwinPaths
from twin.host.private_files import write_private

_VALID = datetime.timedelta(days=365)


def _write(file: Path, content: bytes, *, private: bool = False) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    if private:
        write_private(file, content)
    else:
        file.write_bytes(content)


def _private_pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _builder(
    subject: str, issuer: str, public: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)

    def name(common: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])

    return (
        x509.CertificateBuilder()
        .subject_name(name(subject))
        .issuer_name(name(issuer))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + _VALID)
    )


def make_authority(folder: Path, name: str) -> None:
    """Write a certificate authority, NAME.crt and NAME.key, unless the files exist."""
    if (folder / f"{name}.crt").exists():
        return
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        _builder(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                key_cert_sign=True,
                crl_sign=True,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write(folder / f"{name}.key", _private_pem(key), private=True)
    _write(folder / f"{name}.crt", certificate.public_bytes(serialization.Encoding.PEM))


def make_leaf(
    folder: Path, name: str, authority: Path, *, server: bool, address: str = "127.0.0.1"
) -> None:
    """Write NAME.crt and NAME.key, signed by AUTHORITY.crt and .key, unless the files exist.

    Args:
        folder: output folder.
        name: common name and file name.
        authority: path of the authority's files, without suffix.
        server: whether it is for a server on loopback; otherwise for a client.
        address: address of the server.
    """
    if (folder / f"{name}.crt").exists():
        return
    issuer, issuer_key = read_authority(authority)
    key = ec.generate_private_key(ec.SECP256R1())
    usage = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
    names = x509.SubjectAlternativeName(
        [
            x509.IPAddress(ipaddress.ip_address(address)),
            x509.DNSName("localhost"),
            x509.DNSName("kubernetes.default.svc"),
        ]
    )
    certificate = (
        _builder(name, authority.name, key.public_key())
        .add_extension(names, critical=False)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(
                issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
            ),
            critical=False,
        )
        .sign(issuer_key, hashes.SHA256())
    )
    _write(folder / f"{name}.key", _private_pem(key), private=True)
    _write(folder / f"{name}.crt", certificate.public_bytes(serialization.Encoding.PEM))


def read_authority(authority: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Return the certificate and the key of an authority of the twin.

    Args:
        authority: path of the authority's files, without suffix.
    """
    certificate = x509.load_pem_x509_certificate(authority.with_suffix(".crt").read_bytes())
    key = serialization.load_pem_private_key(authority.with_suffix(".key").read_bytes(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError(f"{authority}.key: an authority of the twin has an EC key")
    return certificate, key


def make_service_account_key(folder: Path) -> None:
    """Write sa.key and sa.pub, the control plane's token signing keys, unless the files exist."""
    if (folder / "sa.pub").exists():
        return
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    _write(folder / "sa.key", _private_pem(key), private=True)
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    _write(folder / "sa.pub", public)


def make_twin_pki(paths: TwinPaths) -> None:
    """Create the twin's authority, a serving certificate for loopback, and the trust bundle."""
    make_authority(paths.pki, "ca")
    make_leaf(paths.pki, "local", paths.pki / "ca", server=True)
    if paths.ca_bundle.exists():
        return
    system = os.environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().openssl_cafile
    certificates = (paths.pki / "ca.crt").read_bytes()
    if Path(system).is_file():
        certificates += Path(system).read_bytes()
    partial = paths.ca_bundle.with_suffix(".tmp")
    _write(partial, certificates)
    partial.replace(paths.ca_bundle)
