"""Verification of V4 signatures, as Cloud Storage does it.

The canonical request and the string to sign follow
docs.cloud.google.com/storage/docs/authentication/canonical-requests and .../signatures.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import parse_qsl, quote, unquote

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from twin.wire.property_values import CloudError

_ALGORITHM: Final = "GOOG4-RSA-SHA256"
_LONGEST: Final = 604_800
_SIGNATURE: Final = "X-Goog-Signature"
_SKEW_SECONDS: Final = 900
_NEEDED: Final = (
    "X-Goog-Algorithm",
    "X-Goog-Credential",
    "X-Goog-Date",
    "X-Goog-Expires",
    "X-Goog-SignedHeaders",
    _SIGNATURE,
)


@dataclass(frozen=True)
class Request:
    """A request to an object."""

    method: str
    path: str
    """`/BUCKET/OBJECT`, as sent."""
    query: str
    headers: Mapping[str, str]
    """With names in lower case."""


def signer_of(
    request: Request, key_of: Callable[[str], rsa.RSAPublicKey | None], now: float
) -> str:
    """Return the account that signed a request.

    Args:
        request: The request.
        key_of: Returns the public key of an account, or None if there is no such account.
        now: Current time.

    Raises:
        CloudError: The signature is missing, wrong or expired, or does not cover a header.
    """
    values = dict(parse_qsl(request.query, keep_blank_values=True))
    for name in _NEEDED:
        if not values.get(name):
            raise _malformed(f"{name} is missing")
    if values["X-Goog-Algorithm"] != _ALGORITHM:
        raise _malformed(f"X-Goog-Algorithm must be {_ALGORITHM}")
    if not values["X-Goog-Expires"].isdigit() or not 1 <= int(values["X-Goog-Expires"]) <= _LONGEST:
        raise _malformed(f"X-Goog-Expires must be 1 to {_LONGEST}")
    account, _, scope = values["X-Goog-Credential"].partition("/")
    if not re.fullmatch(r"\d{8}/[^/]+/storage/goog4_request", scope):
        raise _malformed("X-Goog-Credential must end in DATE/LOCATION/storage/goog4_request")
    signed = values["X-Goog-SignedHeaders"].split(";")
    _check_headers(request, signed)
    key = key_of(account)
    text = _to_sign(request, signed, values["X-Goog-Date"], scope)
    try:
        if key is None:
            raise InvalidSignature
        signature = bytes.fromhex(values[_SIGNATURE])
        key.verify(signature, text.encode(), padding.PKCS1v15(), hashes.SHA256())
    except (InvalidSignature, ValueError):
        raise CloudError(
            403,
            "The request signature we calculated does not match the signature you provided.",
            "SignatureDoesNotMatch",
        ) from None
    _check_time(values["X-Goog-Date"], int(values["X-Goog-Expires"]), now)
    return account


def _check_headers(request: Request, signed: list[str]) -> None:
    for name in ("host", *request.headers):
        if (name == "host" or name.startswith("x-goog-")) and name not in signed:
            raise _malformed(f"header {name} must be signed")
    for name in signed:
        if name not in request.headers:
            raise _malformed(f"signed header {name} is missing from the request")


def _check_time(date: str, seconds: int, now: float) -> None:
    try:
        begun = datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise _malformed("X-Goog-Date must be YYYYMMDD'T'HHMMSS'Z'") from None
    if now < begun - _SKEW_SECONDS:
        raise _malformed("X-Goog-Date is in the future")
    if now > begun + seconds:
        raise CloudError(400, "The provided token has expired.", "ExpiredToken")


def _to_sign(request: Request, signed: list[str], date: str, scope: str) -> str:
    pairs = parse_qsl(request.query, keep_blank_values=True)
    query = "&".join(
        f"{quote(name, safe='~')}={quote(value, safe='~')}"
        for name, value in sorted(pairs)
        if name != _SIGNATURE
    )
    headers = "".join(
        f"{name}:{' '.join(request.headers[name].split())}\n" for name in sorted(signed)
    )
    payload = request.headers.get("x-goog-content-sha256", "UNSIGNED-PAYLOAD")
    path = quote(unquote(request.path), safe="/~")
    canonical = "\n".join((request.method, path, query, headers, ";".join(signed), payload))
    return "\n".join((_ALGORITHM, date, scope, hashlib.sha256(canonical.encode()).hexdigest()))


def _malformed(detail: str) -> CloudError:
    return CloudError(400, f"Invalid argument: {detail}.", "InvalidArgument")
