"""Marks for the folders of sets that were written before there were marks.

A name alone proves nothing: other people have folders with names like those of sets. An adapter is
a set's if the bucket has the same bytes as the adapter of the set with that name, which its worker
archived. Its checkpoint is then the set's as well. A checkpoint without an adapter is a set's if
the set has been in training: a worker does not train a set whose folder is somebody else's.
"""

import asyncio
from pathlib import Path
from typing import Final

from .sets import Set, Unreadable, from_bytes, set_of, state_of
from .settings import WorkSettings
from .share import ADAPTER_FILE, mark, unmarked
from .store import Objects

_PIECE: Final = 8 * 2**20


async def adopt(settings: WorkSettings, objects: Objects, user: str | None = None) -> int:
    """Mark the folders that are of sets, and return the number of names that stay without a mark.

    Args:
        settings: Settings of the worker.
        objects: The bucket.
        user: Only names of this user; None: of all.
    """
    left = 0
    for name, folder in await asyncio.to_thread(unmarked, settings):
        found = set_of(name)
        if found is None or user not in (None, found[0]):
            continue
        there = await objects.read(state_of(*found))
        if there is not None and await _is_of(objects, there[0], folder):
            await asyncio.to_thread(mark, settings, name)
        else:
            left += 1
    return left


async def _is_of(objects: Objects, state: bytes, folder: Path | None) -> bool:
    """Return whether the folders of a name are those of the set with that name."""
    try:
        found = from_bytes(state)
    except Unreadable:
        return False
    if folder is None:
        return found.was_trained
    return await _is_archived(objects, found, folder)


async def _is_archived(objects: Objects, found: Set, folder: Path) -> bool:
    """Return whether a folder has the adapter that the worker of a set archived."""
    file, name = folder / ADAPTER_FILE, found.archived_adapter
    try:
        size = file.stat().st_size
        entries = [each for each in await objects.entries(name) if each.name == name]
        if [each.size for each in entries] != [size] or size == 0:
            return False
        with file.open("rb") as content:
            for start in range(0, size, _PIECE):
                here = await asyncio.to_thread(content.read, _PIECE)
                if here != await objects.read_range(name, start, min(size, start + _PIECE)):
                    return False
    except OSError:  # removed meanwhile, or no file: whose it was cannot be known
        return False
    return True
