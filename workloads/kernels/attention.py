"""Attention of image and language models on TPU: JAX's splash kernel behind one function.

The kernel is JAX's (jax.experimental.pallas.ops.tpu.splash_attention, Apache 2.0). What is added:
block sizes from the tables, lengths that no block divides, heads narrower than a register, and a
plain form for platforms that are no TPU.
"""

import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

from .shapes import AttentionShape, Blocks, generation_of, rounded
from .tables import choose

_PADDING = -1
"""Segment of positions that pad a sequence to whole blocks."""

SegmentIds = jax.Array | tuple[jax.Array, jax.Array]
"""Segments of the positions: [batch, positions], or one of the queries and one of the keys."""


def attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    *,
    causal: bool,
    segment_ids: SegmentIds | None = None,
    block_sizes: Blocks | None = None,
    generation: str | None = None,
    scale: float | None = None,
    interpret: bool | None = None,
) -> jax.Array:
    """Return softmax(q k') v.

    Args:
        q: [batch, heads, queries, head size].
        k: [batch, key heads, keys, head size]; each serves heads / key heads of the heads.
        v: as k.
        causal: a query sees the keys up to its own position; with more keys than queries, the
            last query is the last key.
        segment_ids: a position sees only its own segment; at least 0.
        block_sizes: None: the table's for the shape.
        generation: of the TPU that it is compiled for, `v5e` or `v6e`; None: the one that is here,
            or else v6e.
        scale: of the scores; None: head size to the power of -1/2.
        interpret: run the kernel's own code on any platform, slowly. None: the kernel on TPU, and
            plain XLA elsewhere.

    Raises:
        ValueError: The shapes do not belong together.
    """
    shape = shape_of(q, k, v, causal=causal)
    factor = shape.head_size**-0.5 if scale is None else scale
    pair = _pair(segment_ids, shape)
    blocks = block_sizes or choose(shape, generation or here()).blocks

    def kernel(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return _splash(q, k, v, shape, pair, blocks, factor, interpret=bool(interpret))

    def plain(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return _plain(q, k, v, shape, pair, factor)

    if interpret is None:
        return jax.lax.platform_dependent(q, k, v, tpu=kernel, default=plain)
    return kernel(q, k, v)


def shape_of(q: jax.Array, k: jax.Array, v: jax.Array, *, causal: bool) -> AttentionShape:
    """Return the shape of a call, as the tables know it.

    Raises:
        ValueError: The arrays do not belong together.
    """
    if q.ndim != 4 or k.shape != v.shape or q.shape[:1] + q.shape[3:] != k.shape[:1] + k.shape[3:]:
        raise ValueError(
            "q, k, v: must be [batch, heads, positions, head size] with k and v alike, "
            f"got {q.shape}, {k.shape}, {v.shape}"
        )
    return AttentionShape(
        heads=q.shape[1],
        kv_heads=k.shape[1],
        queries=q.shape[2],
        keys=k.shape[2],
        head_size=q.shape[3],
        causal=causal,
        dtype=str(q.dtype),
    )


def here() -> str:
    """Return the generation of the TPU that this process has, or else v6e."""
    return generation_of(jax.devices()[0].device_kind) or "v6e"


def _pair(
    segment_ids: SegmentIds | None, shape: AttentionShape
) -> tuple[jax.Array, jax.Array] | None:
    if segment_ids is None:
        return None
    pair = segment_ids if isinstance(segment_ids, tuple) else (segment_ids, segment_ids)
    lengths = (pair[0].shape[-1], pair[1].shape[-1])
    if lengths != (shape.queries, shape.keys):
        raise ValueError(
            f"segment_ids: must be of {shape.queries} queries and {shape.keys} keys, got {lengths}"
        )
    return pair


def _splash(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    shape: AttentionShape,
    segments: tuple[jax.Array, jax.Array] | None,
    blocks: Blocks,
    scale: float,
    *,
    interpret: bool,
) -> jax.Array:
    """Pad to whole blocks, run the kernel for each sequence, and cut the padding off."""
    queries, keys = rounded(shape.queries, blocks.q), rounded(shape.keys, blocks.kv)
    size = rounded(shape.head_size)
    # the scale goes into the queries, in float32: the kernel has none of its own
    if scale != 1.0:
        q = (q.astype(jnp.float32) * scale).astype(q.dtype)
    q, k, v = (_padded(x, n, size) for x, n in ((q, queries), (k, keys), (v, keys)))
    # of a causal mask no real query sees the padding; otherwise segments hide it
    if segments is None and keys != shape.keys and not shape.causal:
        zeros = jnp.zeros((q.shape[0], 1), jnp.int32)
        segments = (
            jnp.broadcast_to(zeros, (q.shape[0], shape.queries)),
            jnp.broadcast_to(zeros, (q.shape[0], shape.keys)),
        )
    ids = None
    if segments is not None:
        ids = splash.SegmentIds(
            q=_padded_ids(segments[0], queries), kv=_padded_ids(segments[1], keys)
        )
    kernel = splash_kernel(shape, blocks, interpret=interpret)
    out: jax.Array = jax.vmap(kernel)(q, k, v, ids)  # pyrefly: ignore[bad-assignment] - it has no residuals
    return out[:, :, : shape.queries, : shape.head_size]


def splash_kernel(
    shape: AttentionShape, blocks: Blocks, *, interpret: bool = False
) -> splash.SplashAttentionKernel:
    """Return JAX's kernel for one sequence of a shape, padded to whole blocks."""
    padded = rounded(shape.queries, blocks.q), rounded(shape.keys, blocks.kv)
    mask = (
        masks.CausalMask(padded, offset=shape.keys - shape.queries)
        if shape.causal
        else masks.FullMask(padded)
    )
    return splash.make_splash_mha(
        masks.MultiHeadMask([mask] * shape.heads),
        block_sizes=splash.BlockSizes(
            block_q=blocks.q, block_kv=blocks.kv, block_kv_compute=blocks.compute
        ),
        head_shards=1,
        q_seq_shards=1,
        interpret=interpret,
    )


def _padded(x: jax.Array, positions: int, size: int) -> jax.Array:
    missing = ((0, 0), (0, 0), (0, positions - x.shape[2]), (0, size - x.shape[3]))
    return jnp.pad(x, missing) if any(after for _, after in missing) else x


def _padded_ids(ids: jax.Array, positions: int) -> jax.Array:
    missing = positions - ids.shape[-1]
    return jnp.pad(ids, ((0, 0), (0, missing)), constant_values=_PADDING) if missing else ids


def _plain(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    shape: AttentionShape,
    segments: tuple[jax.Array, jax.Array] | None,
    scale: float,
) -> jax.Array:
    """Return the same by JAX's own attention, which has positions before heads."""
    mask = None
    if shape.causal:
        rows = jnp.arange(shape.queries)[:, None] + (shape.keys - shape.queries)
        mask = (jnp.arange(shape.keys)[None, :] <= rows)[None, None]
    if segments is not None:
        own = (segments[0][:, :, None] == segments[1][:, None, :])[:, None]
        mask = own if mask is None else mask & own
    turned = (jnp.swapaxes(x, 1, 2) for x in (q, k, v))
    return jnp.swapaxes(jax.nn.dot_product_attention(*turned, mask=mask, scale=scale), 1, 2)
