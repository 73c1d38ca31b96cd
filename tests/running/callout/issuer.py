"""An identity provider: it signs JSON Web Tokens, and its public keys can be read."""

import base64
import json
import time
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils

ISSUER = "https://login.example.com"
AUDIENCE = "models"
_COORDINATE_BYTES = 32


class Issuer:
    """An issuer with one key, ES256 (RFC 7518, section 3.4)."""

    def __init__(self, key_id: str = "key-1") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.key_id = key_id

    def jwks(self) -> dict[str, Any]:
        """Return the document of its public keys (RFC 7517)."""
        point = self._key.public_key().public_numbers()
        key = {"alg": "ES256", "crv": "P-256", "kid": self.key_id, "kty": "EC", "use": "sig"}
        return {"keys": [{**key, "x": _number(point.x), "y": _number(point.y)}]}

    def token(self, **changes: Any) -> str:
        """Return a token that is valid for an hour, with other claims where the caller wants."""
        claims = {
            "aud": AUDIENCE,
            "exp": int(time.time()) + 3600,
            "groups": ["all-staff", "ml-assistant"],
            "iss": ISSUER,
            "sub": "ada",
            **changes,
        }
        head = {"alg": "ES256", "kid": self.key_id, "typ": "JWT"}
        signed = f"{_text(head)}.{_text(claims)}"
        r, s = utils.decode_dss_signature(
            self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256()))
        )
        size = _COORDINATE_BYTES
        return f"{signed}.{_encoded(r.to_bytes(size, 'big') + s.to_bytes(size, 'big'))}"


def unsigned(token: str) -> str:
    """Return a token with the same claims, the algorithm `none` and no signature."""
    return f"{_text({'alg': 'none', 'typ': 'JWT'})}.{token.split('.')[1]}."


def _number(value: int) -> str:
    return _encoded(value.to_bytes(_COORDINATE_BYTES, "big"))


def _text(value: dict[str, Any]) -> str:
    return _encoded(json.dumps(value).encode())


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
