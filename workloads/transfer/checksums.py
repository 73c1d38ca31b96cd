"""Checksums of what is read, as a manifest writes them."""

import base64
import hashlib
from collections.abc import Iterable
from typing import Any

import google_crc32c

_library: Any = google_crc32c  # has no types
_extend: Any = _library.extend


class Checksums:
    """CRC-32C and SHA-256 of a stream, chunk by chunk."""

    def __init__(self) -> None:
        self.size = 0
        self._crc = 0
        self._sha = hashlib.sha256()

    def update(self, chunk: bytes) -> None:
        """Add the next chunk."""
        self.size += len(chunk)
        self._crc = _extend(self._crc, chunk)
        self._sha.update(chunk)

    @property
    def crc32c(self) -> str:
        """CRC-32C, in base64."""
        return crc32c_text(self._crc)

    @property
    def sha256(self) -> str:
        """SHA-256, in hexadecimal digits."""
        return self._sha.hexdigest()


def crc32c_text(value: int) -> str:
    """Return a CRC-32C as Cloud Storage and a manifest write it."""
    return base64.b64encode(value.to_bytes(4, "big")).decode()


def crc32c_of(chunks: Iterable[bytes]) -> str:
    """Return the CRC-32C of chunks, in base64."""
    value = 0
    for chunk in chunks:
        value = _extend(value, chunk)
    return crc32c_text(value)
