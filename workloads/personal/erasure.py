"""Deletes all data of a user, everywhere it is, and proves it by looking again."""

import asyncio
import contextlib
import json
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from workloads.common.logs import say

from .adopting import adopt
from .jobs import KINDS, ClusterError, Jobs
from .sets import Unreadable, folder_of, from_bytes, set_of, tombstone_of
from .settings import FrontSettings, WorkSettings
from .share import folders, marks, remove
from .store import BucketError, Changed, Lost, Objects, write

_WRITE_SECONDS: Final = 200.0
"""Longest time from the start of a write to its end: the client of Cloud Storage repeats it for
60 s, and waits 130 s for the last answer."""
_LOOK_SECONDS: Final = 10.0
_PLACES: Final = ("objects", "folders", *KINDS)


class Eraser:
    """Deletes a user's data. It can begin again at any point.

    Args:
        settings: Settings of the worker.
        objects: The bucket.
        jobs: The training jobs.
        now: Clock.
        sleep: Waits.
    """

    def __init__(
        self,
        settings: WorkSettings,
        objects: Objects,
        jobs: Jobs,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._settings = settings
        self._objects = objects
        self._jobs = jobs
        self._now = now
        self._sleep = sleep

    async def erase(self, user: str) -> bool:
        """Return whether a deletion is complete, so that its message needs no other delivery.

        Jobs end first, because a job writes the adapter again. A worker that has a set loses it
        with its next write. A URL that was signed before can still upload, so the last look is
        after the last of them expires.
        """
        try:
            return await self._erase(user)
        except (BucketError, ClusterError) as error:
            say(logging.WARNING, f"a deletion waits: {error}")
        except Exception as error:  # noqa: BLE001 - its text may have a user's name
            say(logging.ERROR, f"a deletion waits: {type(error).__name__}")
        return False

    async def _erase(self, user: str) -> bool:
        there = await self._objects.read(tombstone_of(user))
        if there is None:
            return True  # it is complete
        begun, settled = json.loads(there[0]), self._settings.lease_seconds + _WRITE_SECONDS
        until = begun.get("until", self._now() + settled)
        for uploads_until in await self._uploads(user):
            until = max(until, self._now() + settled, uploads_until)
        # kept before the states go, which alone say when the last URL expires
        begun["until"] = until
        try:
            content = json.dumps(begun).encode()
            await self._objects.write(tombstone_of(user), content, generation=there[1])
        except Changed:
            return False  # of another worker, which may have completed it
        # before the archive of the adapters is deleted, which alone says whose they are
        await adopt(self._settings, self._objects, user)
        deleted = await self._sweep(user)
        while self._now() <= until:
            await self._sleep(min(_LOOK_SECONDS, until - self._now() + 0.001))
        deleted |= await self._sweep(user)
        left = await self._found(user)
        if left:
            say(logging.WARNING, "a deletion waits: something is left", **_counts(left))
            return False
        # last: without its mark, nobody finds a folder that a pod or a kill leaves
        await asyncio.to_thread(self._unmark, user)
        proof = {
            "deleted": _counts(deleted),
            "finished": self._now(),
            "left": _counts(left),
            "since": begun["since"],
            "unmarked": await adopt(self._settings, self._objects, user),
        }
        with contextlib.suppress(Changed):  # of an attempt that died before the next line
            name = f"erasures/{begun['id']}.json"
            await self._objects.write(name, json.dumps(proof).encode(), generation=0)
        await self._objects.delete(tombstone_of(user))
        return True

    async def _uploads(self, user: str) -> list[float]:
        """Take a user's sets from their workers; return when the last URL of each expires."""
        until: list[float] = []
        for entry in await self._objects.entries(folder_of(user)):
            if entry.name.endswith("/state.json"):
                there = await self._objects.read(entry.name)
                if there is None:
                    continue
                try:
                    one = from_bytes(there[0])
                except Unreadable:  # no worker can have it, but URLs may be signed
                    until.append(self._now() + FrontSettings.upload_seconds)
                    continue
                one.owner = "erasure"
                with contextlib.suppress(Lost):  # its worker wrote: it sees the tombstone
                    await write(self._objects, one, there[1])
                until.append(one.uploads_until)
        return until

    async def _sweep(self, user: str) -> set[tuple[str, str]]:
        """Delete everything of a user that is found, jobs first, and return it."""
        found = await self._found(user)
        for kind in KINDS:
            for name in sorted(name for place, name in found if place == kind):
                await self._jobs.delete(kind, name)
        for place, name in sorted(found):
            if place == "folders":
                await asyncio.to_thread(remove, Path(name))
            elif place == "objects":
                await self._objects.delete(name)
        return found

    async def _found(self, user: str) -> set[tuple[str, str]]:
        """Return everything of a user, each with its place."""
        found = {(kind, name) for kind in KINDS for name in await self._jobs.names(kind, user)}
        found |= {("folders", each) for each in await asyncio.to_thread(self._folders, user)}
        entries = await self._objects.entries(folder_of(user))
        return found | {("objects", entry.name) for entry in entries}

    def _folders(self, user: str) -> list[str]:
        return [str(each) for each in folders(self._settings) if _is_of(user, each)]

    def _unmark(self, user: str) -> None:
        for each in marks(self._settings):
            if _is_of(user, each):
                each.unlink(missing_ok=True)


def _is_of(user: str, path: Path) -> bool:
    found = set_of(path.name)
    return found is not None and found[0] == user


def _counts(found: set[tuple[str, str]]) -> dict[str, int]:
    counted = Counter(place for place, _ in found)
    return {place: counted[place] for place in _PLACES}
