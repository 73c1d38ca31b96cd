"""Reads pieces of objects with few calls and little memory."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_GROUP_BYTES: Final = 16 * 2**20
_GAP_BYTES: Final = 64 * 2**10
"""Maximum gap between two pieces that one call reads, in bytes."""


@dataclass(frozen=True)
class Piece:
    """Bytes of an object."""

    name: str
    """Name of the object."""
    start: int
    end: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.end - self.start


def contents_of(pieces: Iterable[Piece], read: Callable[[str, int, int], bytes]) -> Iterator[bytes]:
    """Yield the contents of pieces in order, with about 16 MiB or one piece in memory.

    Args:
        pieces: Pieces to read.
        read: Returns the bytes of an object from a start up to an end.
    """
    for group in _groups(pieces):
        found: dict[Piece, bytes] = {}
        for run in _runs(group):
            start = run[0].start
            content = read(run[0].name, start, max(each.end for each in run))
            found |= {each: content[each.start - start : each.end - start] for each in run}
        for each in group:
            yield found[each]


def _groups(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    group: list[Piece] = []
    size = 0
    for piece in pieces:
        if group and size + piece.size > _GROUP_BYTES:
            yield group
            group, size = [], 0
        group.append(piece)
        size += piece.size
    if group:
        yield group


def _runs(group: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Yield pieces of one object that are close to each other."""
    run: list[Piece] = []
    for piece in sorted(group, key=lambda each: (each.name, each.start)):
        if run and (piece.name != run[-1].name or piece.start - run[-1].end > _GAP_BYTES):
            yield run
            run = []
        run.append(piece)
    if run:
        yield run
