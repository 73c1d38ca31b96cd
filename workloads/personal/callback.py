"""Callbacks: signed by the sender with HMAC-SHA256, verified by the receiver."""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

ID: Final = "X-Callback-Id"
SIGNATURE: Final = "X-Callback-Signature"
TIME: Final = "X-Callback-Time"
_TOLERANCE_SECONDS: Final = 300


class Unverified(ValueError):
    """A callback that its receiver must not trust; the message is one sentence."""


def headers(secret: bytes, body: bytes, name: str, now: float) -> dict[str, str]:
    """Return the headers that sign one attempt at a callback.

    Args:
        secret: Secret of sender and receiver.
        body: Body of the callback.
        name: Identifier, the same for each attempt at one callback.
        now: Time of this attempt.
    """
    at = str(int(now))
    return {ID: name, SIGNATURE: _signature(secret, at, name, body), TIME: at}


def verify(secret: bytes, given: Mapping[str, str], body: bytes, now: float) -> str:
    """Return the identifier of a callback, for a receiver.

    A callback whose answer was lost comes again, with the same identifier. The receiver does
    nothing for an identifier that it has handled, and answers 200: an error would be recorded as a
    refusal, or repeated.

    Args:
        secret: Secret of sender and receiver.
        given: Headers of the request; their case does not matter.
        body: Body of the request.
        now: Current time.

    Raises:
        Unverified: The signature is wrong, or the attempt is old.
    """
    found = {key.lower(): value for key, value in given.items()}
    name, at, signature = (found.get(each.lower(), "") for each in (ID, TIME, SIGNATURE))
    wanted = _signature(secret, at, name, body)
    if not hmac.compare_digest(wanted.encode(), signature.encode(errors="replace")):
        raise Unverified(f"{SIGNATURE}: must be the HMAC-SHA256 of time, identifier and body")
    if abs(now - int(at)) > _TOLERANCE_SECONDS:
        raise Unverified(f"{TIME}: must be within {_TOLERANCE_SECONDS} s, got {at}")
    return name


def _signature(secret: bytes, at: str, name: str, body: bytes) -> str:
    return hmac.new(
        secret, f"{at}.{name}.".encode(errors="replace") + body, hashlib.sha256
    ).hexdigest()
