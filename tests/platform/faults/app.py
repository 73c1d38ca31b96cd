"""The app of personalized images: its backend, which calls the service, and its receiver."""

import json
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.diffusion.personal.pictures import pictures
from tests.diffusion.personal.receiver import Receiver
from twin.host.paths import TwinPaths
from twin.model_providers import server as model_providers
from twin.model_providers.dialects import id_token


class Backend:
    """Calls the service as a service account, at the address of the twin's Cloud Run."""

    def __init__(self, paths: TwinPaths, url: str, account: str | None) -> None:
        self._address = f"http://{model_providers.address(paths)}"
        self._headers = {"Host": url.removeprefix("https://")}
        if account is not None:
            self._headers["Authorization"] = f"Bearer {id_token(url, account)}"

    def call(self, method: str, path: str, body: Any = None) -> requests.Response:
        """Return the answer of the service."""
        return requests.request(
            method, f"{self._address}{path}", json=body, headers=self._headers, timeout=60
        )

    def upload(self, path: str, callback: str, prompts: list[str]) -> None:
        """Announce a set, upload its pictures to the signed URLs, and start it."""
        content = pictures()
        announced = [{"type": "image/png", "bytes": len(each)} for each in content]
        body = {"callback": callback, "pictures": announced, "prompts": prompts}
        answer = self.call("PUT", path, body)
        assert answer.status_code == 200, answer.text
        for picture, to in zip(content, answer.json()["uploads"], strict=True):
            sent = requests.put(to["url"], data=picture, headers=to["headers"], timeout=60)
            assert sent.status_code == 200, sent.text
        assert self.call("POST", f"{path}/start").status_code == 202


def receiver(paths: TwinPaths, host: str, folder: Path) -> Receiver:
    """Return what takes callbacks for a host, with a certificate of the twin's authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(_certificate(paths.pki, host, folder))
    made = Receiver(context)
    (paths.root / "receivers.json").write_text(json.dumps({host: f"127.0.0.1:{made.port}"}))
    return made


def _certificate(authority: Path, host: str, folder: Path) -> Path:
    issuer = x509.load_pem_x509_certificate((authority / "ca.crt").read_bytes())
    signer: Any = serialization.load_pem_private_key((authority / "ca.key").read_bytes(), None)
    issuer_key: Any = issuer.public_key()
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key),
            critical=False,
        )
        .sign(signer, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    file = folder / "receiver.pem"
    file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return file
