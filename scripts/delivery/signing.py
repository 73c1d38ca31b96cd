"""Signatures as cosign checks them: of OCI artifacts with `verify --key`, of files `verify-blob`.

The signature of an artifact is an artifact of its own beside the signed one, under a tag made of
its digest. Its one layer is the signed text, and the signature is in an annotation of that layer.
Source: github.com/sigstore/cosign specs/SIGNATURE_SPEC.md, read 2026-11-24.
"""

import base64
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    load_pem_private_key,
    load_pem_public_key,
)

from scripts.delivery.artifact import Artifact, json_bytes, one_layer
from scripts.shared.google_cloud import Cloud, CloudError
from scripts.terminal.console import CommandError

_KMS: Final = "gcpkms://"
_VERSION: Final = re.compile(
    r"(projects/([^/]+)/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+)"
    r"/(?:versions|cryptoKeyVersions)/([0-9]+)"
)
_PAYLOAD: Final = "application/vnd.dev.cosign.simplesigning.v1+json"
_SIGNATURE: Final = "dev.cosignproject.cosign/signature"
_ECDSA: Final = ec.ECDSA(hashes.SHA256())


@dataclass(frozen=True)
class Signer:
    """Signs with one ECDSA P-256 key."""

    sign: Callable[[bytes], bytes]
    """Returns the DER signature of the SHA-256 digest of a text."""
    public_key: ec.EllipticCurvePublicKey

    def signature_of(self, artifact: Artifact, repository: str) -> tuple[Artifact, str]:
        """Return the signature of an artifact, and the tag of its place in the repository.

        Args:
            artifact: Artifact to sign.
            repository: Repository in a registry, HOST/PATH.

        Raises:
            CommandError: The key made a signature that its public key does not accept.
        """
        payload = json_bytes(
            {
                "critical": {
                    "identity": {"docker-reference": repository},
                    "image": {"docker-manifest-digest": artifact.digest},
                    "type": "cosign container image signature",
                },
                "optional": None,
            }
        )
        annotations = {_SIGNATURE: self.encoded_signature(payload)}
        found = one_layer(payload, _PAYLOAD, layer_annotations=annotations)
        return found, f"{artifact.digest.replace(':', '-')}.sig"

    def encoded_signature(self, text: bytes) -> str:
        """Return the signature of a text in base64, as `cosign sign-blob --key` prints it.

        Raises:
            CommandError: The key made a signature that its public key does not accept.
        """
        signature = self.sign(text)
        encoded = base64.b64encode(signature).decode()
        if not is_signed(text, encoded, self.public_key):
            raise CommandError("--sign: the key's signature does not match its public key")
        return encoded


def is_signed(text: bytes, encoded: str, public_key: ec.EllipticCurvePublicKey) -> bool:
    """Return whether a signature in base64 is that of a text by the owner of a key."""
    try:
        public_key.verify(base64.b64decode(encoded, validate=True), text, _ECDSA)
    except (InvalidSignature, ValueError):  # the second: it is not base64
        return False
    return True


def public_key_of(option: str, file: Path) -> ec.EllipticCurvePublicKey:
    """Return the public key of a PEM file.

    Args:
        option: Option that named the file, for messages.
        file: The file.

    Raises:
        CommandError: It has no ECDSA P-256 key.
    """
    rule = "must be a PEM file with a public ECDSA P-256 key"
    try:
        found = _p256_key(file.read_bytes())
    except OSError as error:
        raise CommandError(f"{option}: {rule}, got '{file}': {error.strerror}") from None
    if found is None:
        raise CommandError(f"{option}: {rule}, got '{file}'")
    return found


def signer_of(key: str, connect: Callable[[str], Cloud]) -> Signer:
    """Return the signer of a key: a PEM file, or gcpkms:// with a key version of Cloud KMS.

    Args:
        key: The key, as given.
        connect: Function that returns the APIs of a project.

    Raises:
        CommandError: The key cannot be used.
    """
    return _kms_signer(key, connect) if key.startswith(_KMS) else _file_signer(key)


def _file_signer(key: str) -> Signer:
    rule = "must be gcpkms://... or a PEM file with an ECDSA P-256 key without a password"
    try:
        found = load_pem_private_key(Path(key).read_bytes(), None)
    except OSError as error:
        raise CommandError(f"--sign: {rule}, got {key!r}: {error.strerror}") from None
    except (TypeError, ValueError, UnsupportedAlgorithm):  # the first: it has a password
        raise CommandError(f"--sign: {rule}, got {key!r}") from None
    if not isinstance(found, ec.EllipticCurvePrivateKey) or not _is_p256(found.public_key()):
        raise CommandError(f"--sign: {rule}, got {key!r} with another kind of key")
    private = found
    return Signer(lambda text: private.sign(text, _ECDSA), private.public_key())


def _kms_signer(key: str, connect: Callable[[str], Cloud]) -> Signer:
    named = _VERSION.fullmatch(key.removeprefix(_KMS))
    if named is None:
        form = f"{_KMS}projects/P/locations/L/keyRings/R/cryptoKeys/K/versions/N"
        raise CommandError(f"--sign: must be {form}, got {key!r}")
    version = f"cloudkms.googleapis.com/v1/{named[1]}/cryptoKeyVersions/{named[3]}"
    try:
        cloud = connect(named[2])
        public = _public_key(cloud.get(f"{version}/publicKey"))
    except CloudError as error:
        raise CommandError(f"--sign: {key}: {error}") from None
    if public is None:
        raise CommandError(f"--sign: must be a key for EC_SIGN_P256_SHA256, got {key!r}")

    def sign(text: bytes) -> bytes:
        digest = base64.b64encode(hashlib.sha256(text).digest()).decode()
        try:
            answer = cloud.post(f"{version}:asymmetricSign", {"digest": {"sha256": digest}})
        except CloudError as error:
            raise CommandError(f"--sign: {key}: {error}") from None
        return base64.b64decode(str(answer.get("signature", "")))

    return Signer(sign, public)


def _public_key(answer: dict[str, Any]) -> ec.EllipticCurvePublicKey | None:
    """Return the ECDSA P-256 key of an answer; `None` if it has another one, or none."""
    return _p256_key(str(answer.get("pem", "")).encode())


def _p256_key(pem: bytes) -> ec.EllipticCurvePublicKey | None:
    try:
        found = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        return None
    return found if isinstance(found, ec.EllipticCurvePublicKey) and _is_p256(found) else None


def _is_p256(key: ec.EllipticCurvePublicKey) -> bool:
    return isinstance(key.curve, ec.SECP256R1)
