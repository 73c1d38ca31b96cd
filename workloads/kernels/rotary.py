"""Rotary position embedding in the forms that matter on TPU, which are all equivalent.

The meaning is that of Flux and diffusers: neighbors (2i, 2i+1) of a head are rotated by the angle
of their position, `freqs` are the cosines and sines, [positions, head size], each angle twice.

What is slow on TPU is reaching every second lane of a register. `swap` does it by a signed
permutation on the matrix unit, `half` by permuting the weights once so that the partner of a lane
is half a register away, `fused` inside VMEM by two lane rotations: one read, one write.
"""

from functools import partial
from typing import Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

Form = Literal["reference", "half", "swap", "fused"]
FORMS: tuple[Form, ...] = get_args(Form)

Freqs = tuple[jax.Array, jax.Array]
"""Cosines and sines, [positions, head size], each angle twice, float32."""

_BLOCK = 1024
"""Maximum positions of one step of the fused kernel."""


def rotary(
    x: jax.Array,
    freqs: Freqs,
    *,
    form: Form | None = None,
    norm_weight: jax.Array | None = None,
    epsilon: float = 1e-6,
    interpret: bool | None = None,
) -> jax.Array:
    """Return x rotated by its positions.

    Args:
        x: [..., heads, positions, head size].
        freqs: [positions, head size] twice.
        form: None: `fused` on TPU, `swap` elsewhere. `half` takes and returns x in the order
            of `half_split`.
        norm_weight: [head size]; with it, x is first divided by its root mean square and multiplied
            by the weight, as the models do with queries and keys.
        epsilon: of that mean.
        interpret: run the fused kernel's code on any platform, slowly.

    Raises:
        ValueError: The shapes or the form are not of the list.
    """
    _check(x, freqs, form)
    if form is None and interpret is None:
        fused = partial(_fused, epsilon=epsilon, interpret=False)
        other = partial(_swap, epsilon=epsilon)
        return jax.lax.platform_dependent(x, *freqs, norm_weight, tpu=fused, default=other)
    if form is None or form == "fused":
        return _fused(x, *freqs, norm_weight, epsilon=epsilon, interpret=bool(interpret))
    plain = {"reference": _reference, "half": _half, "swap": _swap}[form]
    return plain(x, *freqs, norm_weight, epsilon=epsilon)


def heads_first(
    x: jax.Array,
    freqs: Freqs,
    *,
    norm_weight: jax.Array | None = None,
    epsilon: float = 1e-6,
    interpret: bool | None = None,
) -> jax.Array:
    """Return [batch, heads, positions, head size], normed and rotated, from a projection's output.

    One read and one write do what would be a norm, a rotation and a transposition.

    Args:
        x: [batch, positions, heads * head size], as the projection gives it, or the same as
            [batch, positions, heads, head size]; where nothing else wants that form, XLA drops it.
        freqs: [positions, head size] twice.
        norm_weight: [head size], see `rotary`.
        epsilon: of the norm's mean.
        interpret: run the fused kernel's code on any platform, slowly.

    Raises:
        ValueError: The shapes do not belong together.
    """
    size = freqs[0].shape[-1]
    if x.ndim == 3 and x.shape[-1] % size == 0:
        x = x.reshape(*x.shape[:2], -1, size)
    if x.ndim != 4:
        raise ValueError(
            f"x: must be [batch, positions, heads * {size}] or [batch, positions, heads, {size}], "
            f"got {x.shape}"
        )
    _check(jax.ShapeDtypeStruct(_turned(x.shape), x.dtype), freqs, None)

    def fused(x: jax.Array, cos: jax.Array, sin: jax.Array, weight: jax.Array | None) -> jax.Array:
        return _fused_turned(x, cos, sin, weight, epsilon=epsilon, interpret=bool(interpret))

    def plain(x: jax.Array, cos: jax.Array, sin: jax.Array, weight: jax.Array | None) -> jax.Array:
        return _swap(jnp.swapaxes(x, 1, 2), cos, sin, weight, epsilon=epsilon)

    if interpret is None:
        return jax.lax.platform_dependent(x, *freqs, norm_weight, tpu=fused, default=plain)
    return fused(x, *freqs, norm_weight)


def half_split(size: int) -> np.ndarray:
    """Return the order of a head in which partners are half a head apart.

    `x[..., half_split(size)]` is what the form `half` takes. Permute the rows of the weights that
    make queries and keys once, with `permute_projection`: their product does not change.
    """
    return np.concatenate([np.arange(0, size, 2), np.arange(1, size, 2)])


def permute_projection(weight: jax.Array, heads: int) -> jax.Array:
    """Return a projection's weight [heads * head size, ...] whose heads come half-split.

    It serves for the bias, for the norm's weight (heads = 1), and for the up matrix of a LoRA
    adapter, too: leave one of them out and the pictures are noise.
    """
    size = weight.shape[0] // heads
    rows = np.concatenate([head * size + half_split(size) for head in range(heads)])
    return weight[rows]


def _check(x: jax.Array | jax.ShapeDtypeStruct, freqs: Freqs, form: Form | None) -> None:
    if form is not None and form not in FORMS:
        raise ValueError(f"form: must be one of {', '.join(FORMS)}, got {form!r}")
    for table in freqs:
        if len(x.shape) < 3 or table.shape != x.shape[-2:] or table.shape[-1] % 2:
            raise ValueError(
                f"freqs: must be {x.shape[-2:]}, positions and an even head size, got {table.shape}"
            )


def _turned(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (shape[0], shape[2], shape[1], *shape[3:])


def _normed(x: jax.Array, weight: jax.Array | None, epsilon: float) -> jax.Array:
    """Return x in float32, divided by its root mean square if there is a weight."""
    wide = x.astype(jnp.float32)
    if weight is None:
        return wide
    mean = jnp.mean(wide * wide, axis=-1, keepdims=True)
    return wide * jax.lax.rsqrt(mean + epsilon) * weight.astype(jnp.float32)


def _reference(
    x: jax.Array, cos: jax.Array, sin: jax.Array, weight: jax.Array | None, *, epsilon: float
) -> jax.Array:
    """Rotate neighbors one by one, like the models' own code."""
    wide = _normed(x, weight, epsilon)
    pairs = wide.reshape(*x.shape[:-1], -1, 2)
    turned = jnp.stack([-pairs[..., 1], pairs[..., 0]], axis=-1).reshape(x.shape)
    return (wide * cos + turned * sin).astype(x.dtype)


def _half(
    x: jax.Array, cos: jax.Array, sin: jax.Array, weight: jax.Array | None, *, epsilon: float
) -> jax.Array:
    """Rotate partners half a head apart, by one rotation of the lanes; x is half-split."""
    size = x.shape[-1]
    order = half_split(size)
    sign = jnp.where(jnp.arange(size) < size // 2, -1.0, 1.0)
    wide = _normed(x, None if weight is None else weight[order], epsilon)
    turned = jnp.roll(wide, size // 2, axis=-1)
    return (wide * cos[:, order] + turned * (sin[:, order] * sign)).astype(x.dtype)


def _swap(
    x: jax.Array, cos: jax.Array, sin: jax.Array, weight: jax.Array | None, *, epsilon: float
) -> jax.Array:
    """Exchange neighbors by a signed permutation on the matrix unit, which is exact."""
    size = x.shape[-1]
    swap = np.zeros((size, size), np.float32)
    even = np.arange(0, size, 2)
    swap[even + 1, even], swap[even, even + 1] = -1.0, 1.0
    if weight is None:
        wide = x.astype(jnp.float32)
        narrow = x
    else:
        wide = _normed(x, weight, epsilon)
        narrow = wide
    exact = None if narrow.dtype == jnp.bfloat16 else jax.lax.Precision.HIGHEST
    turned = jnp.einsum(
        "...d,de->...e",
        narrow,
        jnp.asarray(swap, narrow.dtype),
        precision=exact,
        preferred_element_type=jnp.float32,
    )
    return (wide * cos + turned * sin).astype(x.dtype)


def _rotate(wide: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    """Rotate neighbors inside VMEM: each lane takes the next or previous one."""
    size = wide.shape[-1]
    lane = jax.lax.broadcasted_iota(jnp.int32, wide.shape, 1)
    after, before = pltpu.roll(wide, size - 1, 1), pltpu.roll(wide, 1, 1)
    return wide * cos + jnp.where(lane % 2 == 0, -after, before) * sin


def _kernel(x_ref, cos_ref, sin_ref, *refs, epsilon: float) -> None:
    """Block of positions of one head."""
    weight = refs[0][...] if len(refs) == 2 else None
    out = refs[-1]
    block = x_ref[...].reshape(cos_ref.shape)
    wide = _normed(block, weight, epsilon)
    out[...] = _rotate(wide, cos_ref[...], sin_ref[...]).astype(out.dtype).reshape(out.shape)


def _fused(
    x: jax.Array,
    cos: jax.Array,
    sin: jax.Array,
    weight: jax.Array | None,
    *,
    epsilon: float,
    interpret: bool,
) -> jax.Array:
    """Run the kernel over [..., positions, head size]."""
    *outer, positions, size = x.shape
    rows = int(np.prod(outer))
    block = _positions_of_a_step(positions)
    out = _call(
        x.reshape(rows, positions, size),
        cos,
        sin,
        weight,
        grid=(pl.cdiv(positions, block), rows),
        x_spec=pl.BlockSpec((1, block, size), lambda i, row: (row, i, 0)),
        out_spec=pl.BlockSpec((1, block, size), lambda i, row: (row, i, 0)),
        out_shape=(rows, positions, size),
        block=block,
        table_index=lambda i, row: (i, 0),
        epsilon=epsilon,
        interpret=interpret,
    )
    return out.reshape(x.shape)


def _fused_turned(
    x: jax.Array,
    cos: jax.Array,
    sin: jax.Array,
    weight: jax.Array | None,
    *,
    epsilon: float,
    interpret: bool,
) -> jax.Array:
    """Run the kernel over [batch, positions, heads, head size]; each head is written separately."""
    batch, positions, heads, size = x.shape
    block = _positions_of_a_step(positions)
    return _call(
        x.reshape(batch, positions, heads * size),
        cos,
        sin,
        weight,
        grid=(pl.cdiv(positions, block), batch, heads),
        x_spec=pl.BlockSpec((1, block, size), lambda i, b, h: (b, i, h)),
        out_spec=pl.BlockSpec((1, 1, block, size), lambda i, b, h: (b, h, i, 0)),
        out_shape=(batch, heads, positions, size),
        block=block,
        table_index=lambda i, b, h: (i, 0),
        epsilon=epsilon,
        interpret=interpret,
    )


def _call(
    x: jax.Array,
    cos: jax.Array,
    sin: jax.Array,
    weight: jax.Array | None,
    *,
    grid: tuple[int, ...],
    x_spec: pl.BlockSpec,
    out_spec: pl.BlockSpec,
    out_shape: tuple[int, ...],
    block: int,
    table_index,
    epsilon: float,
    interpret: bool,
):
    """Call the kernel; positions are the outermost grid axis, so that a table is read once."""
    size = cos.shape[-1]
    table = pl.BlockSpec((block, size), table_index)
    operands = [x, cos.astype(jnp.float32), sin.astype(jnp.float32)]
    specs = [x_spec, table, table]
    if weight is not None:
        operands.append(weight.astype(jnp.float32).reshape(1, size))
        specs.append(pl.BlockSpec((1, size), lambda *_: (0, 0)))
    moved = 2 * x.size * x.dtype.itemsize + 8 * cos.size
    return pl.pallas_call(
        partial(_kernel, epsilon=epsilon),
        grid=grid,
        in_specs=specs,
        out_specs=out_spec,
        out_shape=jax.ShapeDtypeStruct(out_shape, x.dtype),
        cost_estimate=pl.CostEstimate(flops=6 * x.size, transcendentals=0, bytes_accessed=moved),
        interpret=interpret,
        name="rotary",
    )(*operands)


def _positions_of_a_step(positions: int) -> int:
    """Return a block of whole registers; the last block may extend beyond the end."""
    return min(_BLOCK, -(-positions // 16) * 16)
