"""Messages between the server and its workers: a length, then JSON."""

import asyncio
import json
import struct
from typing import Any, BinaryIO

_LENGTH = struct.Struct("<I")
LARGEST = 2**31
"""Largest message in bytes; a batch of images has a few million."""


def packed(message: dict[str, Any]) -> bytes:
    """Return a message in the format for the pipe."""
    body = json.dumps(message).encode()
    return _LENGTH.pack(len(body)) + body


def read(stream: BinaryIO) -> dict[str, Any] | None:
    """Return the next message, or None if the other side is closed."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    body = stream.read(_LENGTH.unpack(head)[0])
    return json.loads(body) if body else None


async def receive(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """Return the next message, or None if the other side is closed."""
    try:
        head = await reader.readexactly(_LENGTH.size)
        return json.loads(await reader.readexactly(_LENGTH.unpack(head)[0]))
    except asyncio.IncompleteReadError:
        return None
