"""The time of attention, estimated from the size of its compiled program.

The kernel is unrolled: one step of the grid runs its code once, from end to end. So the size of the
code, which the compiler tells (`memory_analysis().generated_code_size_in_bytes`), says how long a
step is, and the mask says how many steps there are. Three numbers are fitted to 24 times that a v6e
took and that tokamax publishes (published.csv); leaving each out in turn, the median error is 1.7 %
and the largest 9.7 %. Published is only the best choice for each shape, so how well this ranks the
choices of one shape is not proven: see docs/kernels.md.
"""

import csv
from dataclasses import dataclass
from pathlib import Path

from .shapes import AttentionShape, Blocks, rounded

PUBLISHED = Path(__file__).parent / "published.csv"

CODE_BYTES_PER_NS = {"v5e": 133.0 * 1.5 / 1.75, "v6e": 133.0}
"""Fitted for v6e. v5e: by the ratio of the clocks, 1.5 and 1.75 GHz; nothing is published to check
it with, but it is the same for all choices of a shape."""

CODE_BYTES_OUTSIDE = 37_132
"""Code bytes of a program outside its steps; fitted."""

TURNING_NS_PER_ELEMENT = 0.395e6 / (32 * 512 * 16 * 128)
"""Fitted: what published times have beside the kernel for each element of the queries. It is what
turning queries, keys, values and result from positions first to heads first takes."""

_BYTES_PER_NS = {"v5e": 819.0, "v6e": 1638.0}
"""Bandwidth of HBM, from the documentation of both chips."""


@dataclass(frozen=True)
class Published:
    """A time that a v6e took."""

    shape: AttentionShape
    batch: int
    blocks: Blocks
    ms: float
    code_bytes: int


def published() -> list[Published]:
    """Return the published times."""
    with PUBLISHED.open() as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return [
        Published(
            shape=AttentionShape(
                heads=int(row["heads"]),
                kv_heads=int(row["heads"]),
                queries=int(row["positions"]),
                keys=int(row["positions"]),
                head_size=int(row["head_size"]),
                causal=row["causal"] == "1",
            ),
            batch=int(row["batch"]),
            blocks=Blocks(int(row["q"]), int(row["kv"]), int(row["compute"])),
            ms=float(row["ms"]),
            code_bytes=int(row["code_bytes"]),
        )
        for row in rows
    ]


def steps(shape: AttentionShape, blocks: Blocks) -> int:
    """Return the number of grid steps that the mask leaves, for one sequence."""
    rows = rounded(shape.queries, blocks.q) // blocks.q
    columns = rounded(shape.keys, blocks.kv) // blocks.kv
    if not shape.causal:
        return shape.heads * rows * columns
    offset = shape.keys - shape.queries
    live = 0
    for row in range(rows):
        last = row * blocks.q + blocks.q - 1 + offset
        live += min(columns, last // blocks.kv + 1)
    return shape.heads * live


def kernel_ms(shape: AttentionShape, blocks: Blocks, code_bytes: int, generation: str) -> float:
    """Return the estimate for one sequence: its steps, each the slower of code and memory.

    Args:
        shape: Shape of the call.
        blocks: Compiled blocks.
        code_bytes: Size of the program without a mask: the work of an unmasked step.
        generation: Generation of the chip.
    """
    code_ns = (code_bytes - CODE_BYTES_OUTSIDE) / CODE_BYTES_PER_NS[generation]
    width = 4 if shape.dtype == "float32" else 2
    columns = rounded(shape.keys, blocks.kv) // blocks.kv
    moved = 2 * (blocks.kv + blocks.q / columns) * rounded(shape.head_size) * width
    return steps(shape, blocks) * max(code_ns, moved / _BYTES_PER_NS[generation]) / 1e6


def call_ms(point: Published) -> float:
    """Return the estimate of a published call, with the turning that it has beside the kernel."""
    elements = point.batch * point.shape.heads * point.shape.queries * point.shape.head_size
    kernel = kernel_ms(point.shape, point.blocks, point.code_bytes, "v6e")
    return point.batch * kernel + elements * TURNING_NS_PER_ELEMENT / 1e6
