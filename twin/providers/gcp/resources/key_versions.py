"""Versions of Cloud KMS keys: public keys of signing keys."""

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from twin.providers.gcp.resources.identity import digest
from twin.providers.gcp.resources.references import resolve
from twin.wire.property_values import CloudError, Json, as_object
from twin.world.store import Store

KEY_VERSION = "gcp:kms/getKMSCryptoKeyVersion:getKMSCryptoKeyVersion"
CRYPTO_KEY = "gcp:kms/cryptoKey:CryptoKey"


def key_version(arguments: Json, store: Store) -> Json:
    """Return a key version as Cloud KMS reports it, with a real public key (rule kms.key).

    Raises:
        CloudError: the key does not exist, or is not a signing key.
    """
    asked = str(arguments.get("cryptoKey", ""))
    found = resolve((CRYPTO_KEY,), asked, {}, "", store)
    if found is None:
        raise CloudError(404, f"CryptoKey {asked} not found.", "notFound")
    purpose = found.outputs.get("purpose")
    template = as_object(found.outputs.get("versionTemplate")) or {}
    number = int(arguments.get("version") or 1)
    name = f"{found.id}/cryptoKeyVersions/{number}"
    keys: list[Json] = []
    algorithm = str(template.get("algorithm", "GOOGLE_SYMMETRIC_ENCRYPTION"))
    if purpose == "ASYMMETRIC_SIGN":
        keys = [{"algorithm": algorithm, "pem": _public_key(name)}]
    return {
        "algorithm": algorithm,
        "cryptoKey": found.id,
        "id": f"//cloudkms.googleapis.com/v1/{name}",
        "name": name,
        "protectionLevel": str(template.get("protectionLevel") or "SOFTWARE"),
        "publicKeys": keys,
        "state": "ENABLED",
        "version": number,
    }


def _public_key(name: str) -> str:
    """Return the public half of a P-256 key that is stable for a name."""
    secret = 1 + int(digest("kms", name), 16) % (2**255)
    key = ec.derive_private_key(secret, ec.SECP256R1())
    form = (Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return key.public_key().public_bytes(*form).decode()
