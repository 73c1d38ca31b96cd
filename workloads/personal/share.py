"""The shared folder: what is there of users, and the removal of what no set needs any more."""

import asyncio
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from .sets import ENDED, from_bytes, set_of, state_of
from .settings import WorkSettings
from .store import Objects

_DAY_SECONDS: Final = 86_400.0
_LATE_SECONDS: Final = 3600.0
"""Time after which no pod of an ended set can still write a checkpoint."""


def folders(settings: WorkSettings) -> Iterator[Path]:
    """Yield the folders of all sets: adapters and checkpoints."""
    for place in _places(settings):
        if place.is_dir():
            yield from (each for each in place.iterdir() if set_of(each.name) is not None)


def remove(path: Path) -> None:
    """Remove a folder, or a link but not what it leads to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)  # a job may still write; the next look finds it
    else:
        path.unlink(missing_ok=True)


class Sweeper:
    """Removes adapters after the time for which the bucket keeps them, and late checkpoints.

    Any number of workers can do it at the same time, and one can die at any point: to remove what
    is gone is no error, and the next look goes on. A folder of an unfinished set is never removed.

    Args:
        settings: Settings of the worker.
        objects: The bucket.
        now: Clock.
    """

    def __init__(
        self, settings: WorkSettings, objects: Objects, now: Callable[[], float] = time.time
    ) -> None:
        self._settings = settings
        self._objects = objects
        self._now = now

    async def sweep(self) -> int:
        """Remove what is too old, and return the number of folders."""
        removed = 0
        kept = self._settings.retention_days * _DAY_SECONDS
        for folder in await asyncio.to_thread(lambda: list(folders(self._settings))):
            if await self._age(folder) <= _LATE_SECONDS:
                continue
            stage = await self._stage(folder.name)
            is_checkpoint = folder.parent.name == "work"
            least = _LATE_SECONDS if is_checkpoint and stage in ENDED else kept
            # The second look is after the state: a job that began since then needs far longer.
            if stage in (None, *ENDED) and await self._age(folder) > least:
                await asyncio.to_thread(remove, folder)
                removed += 1
        return removed

    async def _age(self, folder: Path) -> float:
        return self._now() - await asyncio.to_thread(_newest, folder)

    async def _stage(self, name: str) -> str | None:
        found = set_of(name)
        there = None if found is None else await self._objects.read(state_of(*found))
        return None if there is None else from_bytes(there[0]).stage


def _places(settings: WorkSettings) -> tuple[Path, Path]:
    shared = Path(settings.shared)
    return shared / settings.adapters, shared / "work"


def _newest(folder: Path) -> float:
    """Return the time of the last write; 0 where there is no file, as after half a removal."""
    newest = 0.0
    for parent, _, files in os.walk(folder):  # which passes over folders that are gone
        for file in files:
            with suppress(FileNotFoundError):  # another worker removes it
                newest = max(newest, os.stat(Path(parent, file)).st_mtime)
    return newest
