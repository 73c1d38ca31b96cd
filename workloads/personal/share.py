"""The shared folder: what is there of users, and the removal of what no set needs any more.

Other people have adapters and checkpoints there too, and their names can look like those of sets.
A folder belongs to a set only if there is a mark of its name. The worker writes the mark before it
creates the job that writes the folders, and the mark goes only after them.
"""

import asyncio
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from .sets import ENDED, Unreadable, from_bytes, set_of, state_of, tombstone_of
from .settings import WorkSettings
from .store import Objects

ADAPTER_FILE: Final = "pytorch_lora_weights.safetensors"
"""File of an adapter in its folder."""
_DAY_SECONDS: Final = 86_400.0
_LATE_SECONDS: Final = 3600.0
"""Time after which no pod of an ended set can still write a checkpoint."""

_UNKNOWN: Final = "unknown"
"""Stage of a set whose state cannot be read. Its folders stay until the state is gone."""


def mark(settings: WorkSettings, adapter: str) -> None:
    """Note that the folders of an adapter's name belong to a set."""
    path = _marks(settings) / adapter
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def is_marked(settings: WorkSettings, adapter: str) -> bool:
    """Return whether the folders of an adapter's name belong to a set."""
    return (_marks(settings) / adapter).is_file()


def is_of_others(settings: WorkSettings, adapter: str) -> bool:
    """Return whether somebody else has a folder of an adapter's name."""
    return not is_marked(settings, adapter) and bool(_folders_of(settings, adapter))


def marks(settings: WorkSettings) -> list[Path]:
    """Return the marks of all sets."""
    place = _marks(settings)
    there = list(place.iterdir()) if place.is_dir() else []
    return [each for each in there if set_of(each.name) is not None]


def unmarked(settings: WorkSettings) -> list[tuple[str, Path | None]]:
    """Return the names of folders without a mark that could be those of sets.

    Each comes with its adapter's folder, or None if there is only a checkpoint.
    """
    adapters, _ = _places(settings)
    there = {each.name for place in _places(settings) if place.is_dir() for each in place.iterdir()}
    return [
        (name, folder if os.path.lexists(folder := adapters / name) else None)
        for name in sorted(there)
        if set_of(name) is not None and not is_marked(settings, name)
    ]


def folders(settings: WorkSettings) -> Iterator[Path]:
    """Yield the folders of all sets: adapters and checkpoints with a mark."""
    for each in marks(settings):
        yield from _folders_of(settings, each.name)


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
        for folder in await asyncio.to_thread(lambda: list(folders(self._settings))):
            removed += await self._removed(folder)
        for each in await asyncio.to_thread(marks, self._settings):
            await self._forget(each)
        return removed

    async def _removed(self, folder: Path) -> bool:
        if (await self._age(folder))[0] <= _LATE_SECONDS:
            return False
        stage = await self._stage(folder.name)
        if stage not in (None, *ENDED):
            return False
        # The second look is after the state: a job that began since then needs far longer.
        age, has_file = await self._age(folder)
        is_late_checkpoint = folder.parent.name == "work" and stage in ENDED
        # without a file, it is what an interrupted removal left
        least = _LATE_SECONDS if is_late_checkpoint or not has_file else self._kept
        if age <= least:
            return False
        await asyncio.to_thread(remove, folder)
        return True

    async def _forget(self, path: Path) -> None:
        """Delete a mark without folders, after the time in which a pod could write one."""
        user, _ = set_of(path.name) or ("", "")
        is_deleting = await self._objects.read(tombstone_of(user)) is not None
        if not is_deleting and await self._stage(path.name) is None:
            await asyncio.to_thread(self._unmark, path)

    def _unmark(self, path: Path) -> None:
        with suppress(FileNotFoundError):  # another worker deletes it
            is_old = self._now() - path.stat().st_mtime > self._kept
            if is_old and not _folders_of(self._settings, path.name):
                path.unlink()

    @property
    def _kept(self) -> float:
        return self._settings.retention_days * _DAY_SECONDS

    async def _age(self, folder: Path) -> tuple[float, bool]:
        newest, has_file = await asyncio.to_thread(_newest, folder)
        return self._now() - newest, has_file

    async def _stage(self, name: str) -> str | None:
        found = set_of(name)
        there = None if found is None else await self._objects.read(state_of(*found))
        try:
            return None if there is None else from_bytes(there[0]).stage
        except Unreadable:
            return _UNKNOWN


def _places(settings: WorkSettings) -> tuple[Path, Path]:
    shared = Path(settings.shared)
    return shared / settings.adapters, shared / "work"


def _marks(settings: WorkSettings) -> Path:
    return Path(settings.shared) / "marks" / settings.adapters


def _folders_of(settings: WorkSettings, adapter: str) -> list[Path]:
    there = (place / adapter for place in _places(settings))
    return [each for each in there if os.path.lexists(each)]


def _newest(folder: Path) -> tuple[float, bool]:
    """Return the time of the last write, and whether there is a file: else the folder's time."""
    newest: list[float] = []
    for parent, _, files in os.walk(folder):  # which passes over folders that are gone
        for file in files:
            with suppress(FileNotFoundError):  # another worker removes it
                newest.append(os.stat(Path(parent, file)).st_mtime)
    if newest:
        return max(newest), True
    try:
        return os.lstat(folder).st_mtime, False
    except FileNotFoundError:
        return math.inf, False
