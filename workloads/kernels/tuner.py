"""Chooses block sizes: compiles them for the chip, drops what it refuses, ranks the rest.

What is compiled does not depend on the number of heads or positions, only on the blocks: a cache
keeps each result, so shapes share them. The blocks that win are compiled once more at the shape
itself.
"""

import datetime
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp

from .attention import attention, splash_kernel
from .candidates import blocks_for, published_for
from .compiler import RefusedError, array, compiled, versions
from .estimate import kernel_ms
from .shapes import DEFAULT_BLOCKS, AttentionShape, Blocks
from .tables import Entry

Announce = Callable[[str], None]


@dataclass(frozen=True)
class Tried:
    """Blocks, with the compiler's result."""

    blocks: Blocks
    code_bytes: int | None
    """Size of the code; None if the compiler rejects the blocks."""
    refusal: str
    """Reason of the rejection; otherwise empty."""
    estimate_ms: float | None


class CodeSizes:
    """Code size of the kernel by blocks, cached in a file."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._known: dict[str, Any] = {}
        if file is not None and file.exists():
            self._known = json.loads(file.read_text())

    def of(self, shape: AttentionShape, blocks: Blocks, generation: str) -> tuple[int | None, str]:
        """Return the code size of a step or the compiler's reason for a rejection."""
        jax, libtpu = versions()
        key = f"{jax} {libtpu} {generation} {shape.dtype} {shape.head_size} {blocks}"
        if key not in self._known:
            self._known[key] = self._ask(shape, blocks, generation)
            if self._file is not None:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                self._file.write_text(json.dumps(self._known, indent=1))
        code, refusal = self._known[key]
        return code, refusal

    def _ask(self, shape: AttentionShape, blocks: Blocks, generation: str) -> tuple[Any, str]:
        probe = AttentionShape(
            heads=2,
            kv_heads=2,
            queries=2 * blocks.q,
            keys=2 * blocks.kv,
            head_size=shape.head_size,
            causal=False,
            dtype=shape.dtype,
        )
        q, k = (
            array(generation, (2, positions, shape.head_size), jnp.dtype(shape.dtype))
            for positions in (probe.queries, probe.keys)
        )
        kernel = splash_kernel(probe, blocks)
        what = f"attention with blocks {blocks} on {generation}"
        try:
            return compiled(kernel, q, k, k, what=what)[0].code_bytes, ""
        except RefusedError as error:
            return None, str(error)


def compile_at(shape: AttentionShape, blocks: Blocks, generation: str, batch: int = 1) -> int:
    """Compile attention at a shape for a chip, and return the size of its code.

    The scale is one: scaling the queries is a step of its own before the kernel.

    Raises:
        RefusedError: The blocks do not fit into VMEM, or the arrays into HBM.
    """
    dtype = jnp.dtype(shape.dtype)
    q = array(generation, (batch, shape.heads, shape.queries, shape.head_size), dtype)
    k = array(generation, (batch, shape.kv_heads, shape.keys, shape.head_size), dtype)

    def call(q: Any, k: Any, v: Any) -> Any:
        return attention(
            q, k, v, causal=shape.causal, block_sizes=blocks, scale=1.0, interpret=False
        )

    what = f"attention with blocks {blocks} on {generation} ({shape})"
    return compiled(call, q, k, k, what=what)[0].code_bytes


def try_all(
    shape: AttentionShape, generation: str, sizes: CodeSizes, announce: Announce = lambda _: None
) -> list[Tried]:
    """Return every candidate for a shape, the best first and the refused last."""
    found: list[Tried] = []
    for blocks in blocks_for(shape):
        code, refusal = sizes.of(shape, blocks, generation)
        estimate = None if code is None else kernel_ms(shape, blocks, code, generation)
        found.append(Tried(blocks, code, refusal, estimate))
        announce(f"{blocks}: {refusal or f'{code} bytes, {estimate:.3f} ms'}")
    return sorted(found, key=lambda one: (one.estimate_ms is None, one.estimate_ms, one.blocks))


def tune(
    name: str,
    shape: AttentionShape,
    generation: str,
    sizes: CodeSizes,
    announce: Announce = lambda _: None,
) -> Entry:
    """Return the table's entry for a shape, compiled at the shape itself.

    Blocks that somebody measured best on a v6e for the same positions go before any estimate.

    Raises:
        ValueError: No blocks compile.
    """
    tried = try_all(shape, generation, sizes, announce)
    fitting = [one for one in tried if one.estimate_ms is not None]
    known = published_for(shape) if generation == "v6e" else []
    order = sorted(fitting, key=lambda one: one.blocks not in known)
    for one in order:
        try:
            compile_at(shape, one.blocks, generation)
        except RefusedError as error:  # a mask takes a little more than the probe had
            announce(str(error))
            continue
        return _entry(name, shape, generation, one, tried, published=one.blocks in known)
    raise ValueError(f"{name}: must have blocks that fit into VMEM of {generation}, got none")


def _entry(
    name: str,
    shape: AttentionShape,
    generation: str,
    best: Tried,
    tried: list[Tried],
    *,
    published: bool,
) -> Entry:
    default = next(one for one in tried if one.blocks == DEFAULT_BLOCKS)
    jax, libtpu = versions()
    return Entry(
        name=name,
        shape=shape,
        blocks=best.blocks,
        reason="published" if published else "estimate",
        jax=jax,
        libtpu=libtpu,
        date=datetime.date.today().isoformat(),
        code_bytes=best.code_bytes or 0,
        estimate_ms=round(best.estimate_ms or 0.0, 4),
        default_ms=round(default.estimate_ms or 0.0, 4),
        tried=len(tried),
        refused=sum(one.estimate_ms is None for one in tried),
    )
