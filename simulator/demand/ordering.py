"""Sorting by time in bounded memory: runs that do not fit wait in temporary files."""

import heapq
import math
import pickle
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import IO, Any, TypeVar

HELD = 200_000
"""Items in memory."""
_RUNS = 64
"""Most files that are merged at once."""

Item = TypeVar("Item")
_Timed = tuple[float, Item]


def sorted_within(
    items: Iterable[_Timed[Item]], back_seconds: float = math.inf, held: int = HELD
) -> Iterator[_Timed[Item]]:
    """Yield items in the order of their times; those of one time stay in their order.

    Args:
        items: Times and values. Values that wait in a file are pickled.
        back_seconds: Time by which an item may be earlier than one before it.
        held: Most items in memory.
    """
    waiting: list[_Timed[Item]] = []
    latest = -math.inf
    source = iter(items)
    for item in source:
        waiting.append(item)
        latest = max(latest, item[0])
        if len(waiting) < held:
            continue
        waiting.sort(key=_time)
        cut = _cut(waiting, latest - back_seconds)
        yield from waiting[:cut]
        waiting = waiting[cut:]
        if len(waiting) > held // 2:  # more than fits comes within the time
            yield from _merged(waiting, source, held)
            return
    waiting.sort(key=_time)
    yield from waiting


def _merged(
    first: list[_Timed[Item]], source: Iterator[_Timed[Item]], held: int
) -> Iterator[_Timed[Item]]:
    """Yield sorted items and all others of a source, which is read to its end."""
    with ExitStack() as files:
        runs = [_written(first, files)]
        part: list[_Timed[Item]] = []
        for item in source:
            part.append(item)
            if len(part) == held:
                part.sort(key=_time)
                runs.append(_written(part, files))
                part = []
                if len(runs) == _RUNS:
                    runs = [_written(_all_of(runs), files)]
        part.sort(key=_time)
        yield from heapq.merge(*(_read(run) for run in runs), part, key=_time)


def _all_of(runs: list[IO[bytes]]) -> Iterator[Any]:
    yield from heapq.merge(*(_read(run) for run in runs), key=_time)
    for run in runs:
        run.close()


def _written(items: Iterable[_Timed[Any]], files: ExitStack) -> IO[bytes]:
    """Return a temporary file with items."""
    file = files.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
    writer = pickle.Pickler(file, pickle.HIGHEST_PROTOCOL)
    for item in items:
        writer.dump(item)
        writer.clear_memo()
    return file


def _read(file: IO[bytes]) -> Iterator[Any]:
    file.seek(0)
    while True:
        try:
            yield pickle.load(file)  # noqa: S301 - this process has written it
        except EOFError:
            return


def _time(item: _Timed[Any]) -> float:
    return item[0]


def _cut(ordered: list[_Timed[Any]], last: float) -> int:
    """Return how many of some sorted items are not later than a time."""
    low, high = 0, len(ordered)
    while low < high:
        middle = (low + high) // 2
        if ordered[middle][0] <= last:
            low = middle + 1
        else:
            high = middle
    return low
