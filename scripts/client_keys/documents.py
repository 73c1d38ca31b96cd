"""Keys of clients, and the document of their hashes that the callout reads.

A key is `gki_ID_SECRET`. The document has its ID, its team and the SHA-256 of the whole key, which
has 256 random bits, so no slower hash is needed.
"""

import base64
import hashlib
import json
import re
import secrets
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

PREFIX: Final = "gki"
_ID_BYTES: Final = 5
_SECRET_BYTES: Final = 32
_DURATION: Final = re.compile(r"(?P<count>[1-9][0-9]{0,4})(?P<unit>[mhd])")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days"}
_LARGEST_PAYLOAD: Final = 65_536
"""Bytes of a version of a secret (docs.cloud.google.com/secret-manager/quotas)."""


class KeyProblem(Exception):
    """A missing key or an invalid document; one line."""


@dataclass(frozen=True)
class Key:
    """Metadata of a key, without the key itself."""

    id: str
    team: str
    sha256: str
    created: str
    """RFC 3339, UTC."""
    expires: str | None = None
    """Expiry in RFC 3339, UTC; None for never."""

    @property
    def lifetime(self) -> timedelta | None:
        """Time from its creation to its expiry; None for never."""
        if self.expires is None:
            return None
        return datetime.fromisoformat(self.expires) - datetime.fromisoformat(self.created)

    def is_valid(self, now: datetime) -> bool:
        """Return whether the key is valid."""
        return self.expires is None or datetime.fromisoformat(self.expires) > now


def make(team: str, now: datetime, lifetime: timedelta | None = None) -> tuple[Key, str]:
    """Return a new key and its text, which is not stored.

    Args:
        team: Team that it is for.
        now: Time of its creation.
        lifetime: Lifetime; None for until it is revoked.
    """
    name = base64.b32encode(secrets.token_bytes(_ID_BYTES)).decode().lower()
    secret = base64.urlsafe_b64encode(secrets.token_bytes(_SECRET_BYTES)).decode().rstrip("=")
    text = f"{PREFIX}_{name}_{secret}"
    digest = hashlib.sha256(text.encode()).hexdigest()
    expires = None if lifetime is None else _stamp(now + lifetime)
    return Key(name, team, digest, _stamp(now), expires), text


def lifetime_of(option: str, text: str) -> timedelta:
    """Return a duration such as `90d`, `12h` or `30m`.

    Raises:
        KeyProblem: It is none.
    """
    found = _DURATION.fullmatch(text)
    if found is None:
        raise KeyProblem(f"{option}: must be a duration such as 90d, 12h or 30m, got {text!r}")
    return timedelta(**{_UNITS[found["unit"]]: int(found["count"])})


@dataclass(frozen=True)
class KeyDocument:
    """The content of the secret."""

    keys: list[Key]
    salt_key: str | None = None
    """Secret from which the gate derives the salt of each team for the prefix caches of engines.
    None in a document that an earlier release wrote."""


def new_salt_key() -> str:
    """Return a random key for salts."""
    return base64.urlsafe_b64encode(secrets.token_bytes(_SECRET_BYTES)).decode().rstrip("=")


def parse(text: str) -> KeyDocument:
    """Return the content of a document.

    Raises:
        KeyProblem: This release cannot read the document.
    """
    try:
        found: Any = json.loads(text)
        keys = [Key(**entry) for entry in found["keys"]]
        return KeyDocument(keys, found.get("cache_salt_key"))
    except (KeyError, TypeError, ValueError):
        raise KeyProblem(
            "the secret must contain a document of keys, but another program wrote it"
        ) from None


def document(keys: Iterable[Key], salt_key: str) -> str:
    """Return the document of some keys, and of the key of the salts.

    Raises:
        KeyProblem: It exceeds the maximum size of a secret version.
    """
    text = json.dumps({"cache_salt_key": salt_key, "keys": [asdict(key) for key in keys]})
    if len(text.encode()) > _LARGEST_PAYLOAD:
        raise KeyProblem(
            f"the document of keys must have at most {_LARGEST_PAYLOAD} bytes, got {len(text)}:"
            " revoke keys that nobody uses"
        )
    return text


def added(keys: list[Key], new: Key, now: datetime) -> list[Key]:
    """Return the keys with a new one, without expired keys."""
    return [*(key for key in keys if key.is_valid(now)), new]


def revoked(keys: list[Key], name: str, now: datetime) -> list[Key]:
    """Return the keys without one of them and without expired keys.

    Raises:
        KeyProblem: There is no such key.
    """
    of_id(keys, name)
    return [key for key in keys if key.id != name and key.is_valid(now)]


def expiring(keys: list[Key], name: str, at: datetime) -> list[Key]:
    """Return the keys, with the expiry of one moved to a time unless it is earlier.

    Raises:
        KeyProblem: There is no such key.
    """
    key = of_id(keys, name)
    sooner = key.expires is not None and datetime.fromisoformat(key.expires) < at
    changed = key if sooner else replace(key, expires=_stamp(at))
    return [changed if each.id == name else each for each in keys]


def of_id(keys: list[Key], name: str) -> Key:
    """Return a key by its ID.

    Raises:
        KeyProblem: There is no such key.
    """
    for key in keys:
        if key.id == name:
            return key
    known = ", ".join(key.id for key in keys) or "none"
    raise KeyProblem(f"ID: must be the ID of a key ({known}), got {name!r}")


def utc_now() -> datetime:
    """Return the time, in whole seconds."""
    return datetime.now(UTC).replace(microsecond=0)


def _stamp(time: datetime) -> str:
    return time.astimezone(UTC).replace(microsecond=0).strftime("%Y-%m-%dT%H:%M:%SZ")
