"""Paged attention as LLM engines on TPU have it: JAX's kernel, compiled to see whether it can be.

vLLM on TPU runs tpu-inference's later version of this kernel, with block sizes of its own; that
package pins releases that this environment cannot have. What is checked is what both need: that
the chip's compiler takes this number of heads and this head size, and that the blocks fit.
"""

import jax.numpy as jnp
from jax.experimental.pallas.ops.tpu.ragged_paged_attention import ragged_paged_attention
from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh

from .compiler import array, compiled, device

_QUERIES = 32
_KEYS = 1024
"""Queries and keys of a step: small ones, as the kernel's own default has."""
_TOKENS = 2048
"""Of a step of the engine."""
_SEQUENCES = 64
_PAGES = 512


def compile_paged(
    generation: str, *, heads: int, kv_heads: int, head_size: int, context: int, page: int = 64
) -> int:
    """Compile paged attention for a chip, and return the size of its code.

    Args:
        generation: of the chip.
        heads: that this chip has, of all.
        kv_heads: that this chip has.
        head_size: of both.
        context: longest sequence, in tokens.
        page: tokens of a page of the KV cache.

    Raises:
        RefusedError: it does not fit into VMEM.
        ValueError: the kernel cannot have these heads.
    """
    pages = -(-context // page)
    arrays = (
        array(generation, (_TOKENS, heads, head_size), jnp.bfloat16),
        array(generation, (_PAGES, page, 2 * kv_heads, head_size), jnp.bfloat16),
        array(generation, (_SEQUENCES,), jnp.int32),
        array(generation, (_SEQUENCES, pages), jnp.int32),
        array(generation, (_SEQUENCES + 1,), jnp.int32),
        array(generation, (1,), jnp.int32),
    )

    def call(*given):
        return ragged_paged_attention(
            *given,
            num_kv_pages_per_block=min(pages, max(1, _KEYS // page)),
            num_queries_per_block=_QUERIES,
            sm_scale=head_size**-0.5,
        )

    # the kernel asks which chip it is for, and would find this machine's processor
    chip = AbstractDevice(device(generation).device_kind, 1, "tpu")
    mesh = AbstractMesh((1,), ("x",), abstract_device=chip)
    what = f"paged attention of {heads}:{kv_heads} heads of {head_size} on {generation}"
    with use_abstract_mesh(mesh):
        return compiled(call, *arrays, what=what)[0].code_bytes
