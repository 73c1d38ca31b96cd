"""Times attention on a device, which turns an estimate in a table into a measurement."""

import datetime
import statistics
import time
from dataclasses import replace

import jax
import jax.numpy as jnp

from .attention import attention
from .shapes import AttentionShape, Blocks, generation_of
from .tables import Entry, Measured
from .tuner import Tried


def milliseconds(
    shape: AttentionShape, blocks: Blocks, *, repeats: int = 10, interpret: bool = False
) -> float:
    """Return the median time of a call on this process's device.

    Args:
        shape: Shape of the call.
        blocks: Blocks of the kernel.
        repeats: Timed calls, after one that compiles and one that warms up.
        interpret: Interpret the kernel's code, for devices other than TPUs.
    """
    keys = jax.random.split(jax.random.key(0), 3)
    dtype = jnp.dtype(shape.dtype)
    q = jax.random.normal(keys[0], (1, shape.heads, shape.queries, shape.head_size), dtype)
    k, v = (
        jax.random.normal(key, (1, shape.kv_heads, shape.keys, shape.head_size), dtype)
        for key in keys[1:]
    )
    call = jax.jit(
        lambda q, k, v: attention(
            q, k, v, causal=shape.causal, block_sizes=blocks, scale=1.0, interpret=interpret
        )
    )
    for _ in range(2):
        call(q, k, v).block_until_ready()
    times: list[float] = []
    for _ in range(repeats):
        begun = time.perf_counter()
        call(q, k, v).block_until_ready()
        times.append((time.perf_counter() - begun) * 1e3)
    return statistics.median(times)


def check_device(generation: str) -> str:
    """Return JAX's name of this process's device.

    Raises:
        ValueError: The device is not a TPU of the generation.
    """
    kind = jax.devices()[0].device_kind
    if generation_of(kind) != generation:
        raise ValueError(f"--measure: must run on a {generation}, this is {kind!r}")
    return kind


def measured(
    entry: Entry, tried: list[Tried], chip: str, *, best: int = 5, interpret: bool = False
) -> Entry:
    """Return an entry with the fastest blocks on this device, and their time.

    Args:
        entry: Entry of the tuner.
        tried: Its candidates, the best first; the first `best` are timed, and the entry's own.
        chip: JAX's name of the device.
        best: Number of candidates to time.
        interpret: As in `milliseconds`.
    """
    fitting = [one for one in tried if one.estimate_ms is not None]
    chosen = [one for one in fitting if one.blocks == entry.blocks]
    times = [
        (milliseconds(entry.shape, one.blocks, interpret=interpret), one)
        for one in {one.blocks: one for one in [*fitting[:best], *chosen]}.values()
    ]
    ms, fastest = min(times, key=lambda pair: pair[0])
    return replace(
        entry,
        blocks=fastest.blocks,
        reason="measured",
        code_bytes=fastest.code_bytes or 0,
        estimate_ms=round(fastest.estimate_ms or 0.0, 4),
        measured=Measured(round(ms, 4), chip, datetime.date.today().isoformat()),
    )
