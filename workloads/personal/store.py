"""What the program needs of a bucket, and the lease of a set in it."""

import asyncio
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from workloads.common.bucket import BucketError, Changed, Entry

from .sets import ENDED, Set, from_bytes, state_of

__all__ = ["BucketError", "Changed", "Entry", "Held", "Lost", "Objects", "take"]


class Objects(Protocol):
    """The part of a bucket that is used (workloads/common/bucket.py)."""

    async def read(self, name: str) -> tuple[bytes, int] | None:
        """Return content and generation."""
        ...

    async def read_range(self, name: str, start: int, end: int) -> bytes:
        """Return some bytes."""
        ...

    async def entries(self, prefix: str) -> Sequence[Entry]:
        """Return the objects below a prefix."""
        ...

    async def write(
        self, name: str, content: bytes, *, generation: int | None = None, kind: str = ...
    ) -> int:
        """Write an object, on a condition."""
        ...

    async def upload(
        self, name: str, file: Path, metadata: dict[str, str], kind: str = ..., /
    ) -> None:
        """Write an object from a file, in pieces; it must not exist."""
        ...

    async def delete(self, name: str, /) -> None:
        """Delete an object."""
        ...


class Lost(Exception):
    """Another worker has the set, or its data is gone."""


class Held:
    """A set that this worker has. Each save requires that nobody else wrote it."""

    def __init__(
        self,
        objects: Objects,
        found: Set,
        generation: int,
        seconds: float,
        now: Callable[[], float],
    ) -> None:
        self.set = found
        self._objects = objects
        self._generation = generation
        self._seconds = seconds
        self._now = now
        self._lock = asyncio.Lock()

    async def save(self) -> None:
        """Write the set with a new lease.

        Raises:
            Lost: It is another worker's, or deleted.
        """
        async with self._lock:
            self.set.lease_until = self._now() + self._seconds
            self._generation = await write(self._objects, self.set, self._generation)

    async def enter(self, stage: str) -> None:
        """Begin a stage."""
        self.set.enter(stage, self._now())
        await self.save()

    async def release(self) -> None:
        """Let the next worker have the set at once."""
        async with self._lock:
            self.set.owner, self.set.lease_until = "", 0.0
            self._generation = await write(self._objects, self.set, self._generation)

    async def keep(self) -> None:
        """Renew the lease until cancelled.

        Raises:
            Lost: It is another worker's, or deleted.
        """
        while True:
            await asyncio.sleep(self._seconds / 3)
            await self.save()


async def write(objects: Objects, found: Set, generation: int) -> int:
    """Write a set over a generation, and return its new one.

    Raises:
        Lost: There is another generation that was not written here.
    """
    found.write = uuid.uuid4().hex
    name = state_of(found.user, found.name)
    try:
        return await objects.write(name, found.to_bytes(), generation=generation)
    except Changed:
        there = await objects.read(name)  # a write that was repeated meets its own first attempt
        if there is not None and from_bytes(there[0]).write == found.write:
            return there[1]
        raise Lost(name) from None


async def take(
    objects: Objects,
    user: str,
    name: str,
    owner: str,
    seconds: float,
    now: Callable[[], float],
) -> Held | None:
    """Take the lease of a set; None if there is no such set, or nothing to do for it.

    The holder is this attempt, not the worker: Pub/Sub can deliver a message again to the worker
    that still has its first delivery.

    Raises:
        Lost: An attempt that may be alive has it.
    """
    there = await objects.read(state_of(user, name))
    if there is None:
        return None
    found = from_bytes(there[0])
    if found.stage in (*ENDED, "uploading"):
        return None
    if found.owner and found.lease_until > now():
        raise Lost(found.owner)
    found.owner = f"{owner}/{uuid.uuid4().hex[:8]}"
    held = Held(objects, found, there[1], seconds, now)
    await held.save()
    return held
