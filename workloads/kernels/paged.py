"""Paged attention for LLM engines on TPU: compiles JAX's kernel to check that it can be compiled.

vLLM on TPU runs tpu-inference's later version of this kernel, with block sizes of its own; that
package pins releases that this environment cannot have. The check covers what both need:
the chip's compiler accepts this number of heads and this head size, and the blocks fit.
"""

import jax.numpy as jnp
from jax.experimental.pallas.ops.tpu.ragged_paged_attention import ragged_paged_attention
from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh

from .compiler import array, compiled, device

_QUERIES = 32
_KEYS = 1024
"""Queries and keys of a step: small ones, like the kernel's default."""
_TOKENS = 2048
"""Tokens of an engine step."""
_SEQUENCES = 64
_PAGES = 512


def compile_paged(
    generation: str, *, heads: int, kv_heads: int, head_size: int, context: int, page: int = 64
) -> int:
    """Compile paged attention for a chip, and return the size of its code.

    Args:
        generation: Generation of the chip.
        heads: Query heads on this chip.
        kv_heads: KV heads on this chip.
        head_size: Size of a head.
        context: Longest sequence, in tokens.
        page: Tokens per page of the KV cache.

    Raises:
        RefusedError: The kernel does not fit into VMEM.
        ValueError: The kernel does not support these heads.
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
