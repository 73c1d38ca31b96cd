"""Tables of block sizes: one file per generation, with the facts about each entry.

An entry is written by the tuner from what the compiler says; only a chip can make its `measured`
anything but null. A shape without an entry gets the blocks of the entry most like it, cut to its
length, and `source` says so.
"""

import json
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from .shapes import GENERATIONS, AttentionShape, Blocks, rounded

FOLDER = Path(__file__).parent / "tables"


@dataclass(frozen=True)
class Measured:
    """Time measured on a chip."""

    ms: float
    """Median time of one call."""
    chip: str
    """Name of the device in JAX."""
    date: str


@dataclass(frozen=True)
class Entry:
    """Block sizes of one shape on one generation, with their basis."""

    name: str
    """Who requests the shape, such as `flux-1024-512`."""
    shape: AttentionShape
    blocks: Blocks
    reason: str
    """`estimate`; `published`: measured as the best on this chip by others; `measured`."""
    jax: str
    """Release that compiled it."""
    libtpu: str
    date: str
    code_bytes: int
    """Size of the program, from the compiler."""
    estimate_ms: float
    """Estimated time for one sequence, from `code_bytes`; docs/kernels.md reports its accuracy."""
    default_ms: float
    """The same estimate with the kernel's default blocks."""
    tried: int
    """Blocks that were compiled."""
    refused: int
    """Number of those that the compiler rejected because of memory."""
    measured: Measured | None = None


@dataclass(frozen=True)
class Choice:
    """The blocks for a call."""

    blocks: Blocks
    source: str
    """`table`, `nearest` or `rule`."""
    entry: Entry | None


def load(generation: str, folder: Path = FOLDER) -> list[Entry]:
    """Return the entries of a generation, sorted by name; none if there is no file."""
    file = folder / f"{generation}.json"
    if not file.exists():
        return []
    return [_entry(one) for one in json.loads(file.read_text())["entries"]]


def save(generation: str, entries: list[Entry], folder: Path = FOLDER) -> Path:
    """Write the entries of a generation and return the file."""
    file = folder / f"{generation}.json"
    body = {"generation": generation, "entries": [asdict(one) for one in _sorted(entries)]}
    file.write_text(json.dumps(body, indent=1) + "\n")
    return file


def put(generation: str, entry: Entry, folder: Path = FOLDER) -> None:
    """Insert an entry, in place of the one with the same shape.

    A measured time stays if the blocks are the measured ones.
    """
    entries = load(generation, folder)
    for old in entries:
        if old.shape == entry.shape and old.blocks == entry.blocks and entry.measured is None:
            entry = replace(entry, measured=old.measured)
    save(generation, [*(one for one in entries if one.shape != entry.shape), entry], folder)


def find(shape: AttentionShape, generation: str, folder: Path = FOLDER) -> Entry | None:
    """Return the entry of exactly this shape, or None."""
    return next((one for one in _cached(generation, folder) if one.shape == shape), None)


def choose(shape: AttentionShape, generation: str, folder: Path = FOLDER) -> Choice:
    """Return the blocks of a shape: its entry's, or else cut from the entry most like it.

    Raises:
        ValueError: The generation is unknown.
    """
    if generation not in GENERATIONS:
        raise ValueError(f"generation: must be one of {', '.join(GENERATIONS)}, got {generation!r}")
    if (exact := find(shape, generation, folder)) is not None:
        return Choice(exact.blocks, "table", exact)
    alike = [
        one
        for one in _cached(generation, folder)
        if one.shape.head_size == shape.head_size and one.shape.causal == shape.causal
    ]
    if not alike:
        return Choice(cut(Blocks(512, 512, 512), shape), "rule", None)
    near = min(alike, key=lambda one: abs(one.shape.keys - shape.keys))
    return Choice(cut(near.blocks, shape), "nearest", near)


def cut(blocks: Blocks, shape: AttentionShape) -> Blocks:
    """Return blocks no larger than the sequence, shrunk so that they waste little of it."""
    q = _dividing(blocks.q, rounded(shape.queries))
    kv = _dividing(blocks.kv, rounded(shape.keys))
    return Blocks(q, kv, _dividing(blocks.compute, kv, exact=True))


def _dividing(block: int, length: int, *, exact: bool = False) -> int:
    """Return the largest block up to `block` that divides a length, unless that is far smaller."""
    block = min(block, length)
    best = max(size for size in range(128, block + 1, 128) if length % size == 0)
    return best if exact or 2 * best >= block else block


@cache
def _cached(generation: str, folder: Path) -> tuple[Entry, ...]:
    return tuple(load(generation, folder))


def _sorted(entries: list[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda one: (one.name, one.shape))


def _entry(body: dict[str, Any]) -> Entry:
    measured = body["measured"]
    made: dict[str, Any] = {
        **body,
        "shape": AttentionShape(**body["shape"]),
        "blocks": Blocks(**body["blocks"]),
        "measured": None if measured is None else Measured(**measured),
    }
    return Entry(**made)
