"""Wan's attention with the platform's kernels, as a processor for diffusers' modules."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from kernels.attention import attention
from kernels.rotary import heads_first
from torchax import interop


@dataclass(frozen=True)
class KernelVideoAttention:
    """Attention processor for attention within the video, and to the prompt.

    Args:
        generation: Generation of the target chip; None for this machine's.
    """

    generation: str | None = None

    def __call__(
        self,
        attn: Any,
        hidden_states: Any,
        encoder_hidden_states: Any = None,
        attention_mask: Any = None,
        rotary_emb: Any = None,
    ) -> Any:
        """Return the same as diffusers' processor.

        Raises:
            ValueError: There is a mask; Wan uses none, not even for the padding of a prompt.
        """
        if attention_mask is not None:
            raise ValueError("attention_mask: must not be set: the kernel does not support it")
        seen = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        q = attn.norm_q(attn.to_q(hidden_states))  # over all heads together
        k = attn.norm_k(attn.to_k(seen))
        attend = partial(self._attend, heads=int(attn.heads))
        out = interop.call_jax(attend, q, k, attn.to_v(seen), rotary_emb)
        return attn.to_out[1](attn.to_out[0](out))

    def _attend(self, q: Any, k: Any, v: Any, rotary: Any, *, heads: int) -> jax.Array:
        def turned(given: jax.Array) -> jax.Array:
            return jnp.swapaxes(given.reshape(*given.shape[:2], heads, -1), 1, 2)

        if rotary is None:
            q, k = turned(q), turned(k)
        else:
            # one and the same angle for both neighbors: cosines and sines are each there twice
            freqs = tuple(each.reshape(each.shape[1], -1) for each in rotary)
            q, k = heads_first(q, freqs), heads_first(k, freqs)
        out = attention(q, k, turned(v), causal=False, generation=self.generation)
        out = jnp.swapaxes(out, 1, 2)
        return out.reshape(*out.shape[:2], -1)
