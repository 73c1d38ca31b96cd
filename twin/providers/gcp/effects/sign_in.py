"""Identity-Aware Proxy: who may pass, and the signed headers of those who do (rule front.sign-in).

The Envoy of global load balancers asks for each request to a backend service with IAP. There is no
page to sign in on: a header names the person who has a session, and the groups they are in.
"""

import base64
import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from twin.host.locks import exclusive
from twin.host.paths import TwinPaths
from twin.host.private_files import write_private
from twin.providers.gcp.resources.identity import project_number
from twin.providers.gcp.resources.project_numbers import known_number
from twin.wire.property_values import last_segment
from twin.world.store import Store

PERSON: Final = "x-twin-person"
"""Request header: the address of a person with a session, then those of their groups."""
TOKEN: Final = "x-goog-iap-jwt-assertion"  # noqa: S105 - a header
HEADERS: Final = (TOKEN, "x-goog-authenticated-user-email", "x-goog-authenticated-user-id")
"""Request headers that IAP sets."""
KEYS_PATH: Final = "/verify/public_key-jwk"
CHECK_PATH: Final = "/iap/"
"""Prefix of the paths of checks, before the project and the name of the backend service."""
_MEMBERS: Final = "gcp:iap/webBackendServiceIamMember:WebBackendServiceIamMember"
_SERVICE: Final = "gcp:compute/backendService:BackendService"
_ROLE: Final = "roles/iap.httpsResourceAccessor"
_ISSUER: Final = "https://cloud.google.com/iap"
_SECONDS: Final = 600
_BYTES: Final = 32


@dataclass(frozen=True)
class Answer:
    """An answer to the load balancer; the request passes with 200."""

    status: int
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


def check(paths: TwinPaths, store: Store, path: str, headers: Mapping[str, str]) -> Answer:
    """Return whether a request to a backend service passes.

    Args:
        paths: Files of the twin.
        store: The cloud.
        path: `/iap/PROJECT/SERVICE`, and the path of the request.
        headers: Those of the request, in lower case.
    """
    project, _, rest = path.removeprefix(CHECK_PATH).partition("/")
    name = rest.partition("/")[0]
    service = store.get(_SERVICE, f"projects/{project}/global/backendServices/{name}")
    person, *groups = [each.strip() for each in headers.get(PERSON, "").split(",")]
    if service is None:
        return Answer(404, "The backend service does not exist.")
    if not person:
        if "text/html" in headers.get("accept", ""):
            return Answer(302, headers={"Location": "https://accounts.google.com/o/oauth2/v2/auth"})
        return Answer(401, "Invalid IAP credentials: empty token")
    domain = person.partition("@")[2]
    wanted = {
        f"user:{person}",
        f"serviceAccount:{person}",
        f"domain:{domain}",
        *(f"group:{group}" for group in groups),
    }
    members = {
        str(each.inputs.get("member"))
        for each in store.find(_MEMBERS)
        if each.project == project
        and each.status == "ready"
        and each.inputs.get("role") == _ROLE
        and last_segment(str(each.inputs.get("webBackendService"))) == name
    }
    if not wanted & members:
        return Answer(403, "You don't have access")
    number = known_number(project, store) or project_number(project)
    identifier = int(str(service.outputs.get("generatedId")))
    audience = f"/projects/{number}/global/backendServices/{identifier}"
    return Answer(200, headers=signed_headers(paths, person, audience))


def signed_headers(paths: TwinPaths, person: str, audience: str) -> dict[str, str]:
    """Return the headers that a person's requests get for an audience."""
    now = int(time.time())
    identifier = str(int(hashlib.sha256(person.encode()).hexdigest()[:15], 16))
    claims = {
        "aud": audience,
        "email": person,
        "exp": now + _SECONDS,
        "hd": person.partition("@")[2],
        "iat": now,
        "iss": _ISSUER,
        "sub": f"accounts.google.com:{identifier}",
    }
    key = _key(paths.pki)
    head = {"alg": "ES256", "kid": _public(key)["kid"], "typ": "JWT"}
    text = ".".join(_encoded(json.dumps(part).encode()) for part in (head, claims))
    r, s = decode_dss_signature(key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
    signature = _encoded(r.to_bytes(_BYTES, "big") + s.to_bytes(_BYTES, "big"))
    values = (f"{text}.{signature}", f"accounts.google.com:{person}", claims["sub"])
    return dict(zip(HEADERS, map(str, values), strict=True))


def public_keys(paths: TwinPaths) -> dict[str, Any]:
    """Return the public keys of the tokens (https://www.gstatic.com/iap/verify/public_key-jwk)."""
    return {"keys": [_public(_key(paths.pki))]}


def _public(key: ec.EllipticCurvePrivateKey) -> dict[str, str]:
    numbers = key.public_key().public_numbers()
    x, y = (_encoded(part.to_bytes(_BYTES, "big")) for part in (numbers.x, numbers.y))
    kid = hashlib.sha256(f"{x}{y}".encode()).hexdigest()[:8]
    return {"alg": "ES256", "crv": "P-256", "kid": kid, "kty": "EC", "use": "sig", "x": x, "y": y}


@cache
def _key(folder: Path) -> ec.EllipticCurvePrivateKey:
    """Return the private key, which the first call makes."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "iap.key"
    with exclusive(folder / "iap.lock"):
        if not file.exists():
            made = ec.generate_private_key(ec.SECP256R1()).private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            write_private(file, made)
    key = serialization.load_pem_private_key(file.read_bytes(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError(f"{file}: must be the key of an elliptic curve")
    return key


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
