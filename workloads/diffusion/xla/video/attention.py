"""Wan's attention with the platform's kernels, as a processor for diffusers' modules."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
from kernels.attention import attention
from kernels.rotary import heads_first
from torchax import interop

from ..heads import from_heads, refuse_mask, to_heads


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
        refuse_mask(attention_mask)
        seen = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        q = attn.norm_q(attn.to_q(hidden_states))  # over all heads together
        k = attn.norm_k(attn.to_k(seen))
        attend = partial(self._attend, heads=int(attn.heads))
        out = interop.call_jax(attend, q, k, attn.to_v(seen), rotary_emb)
        return attn.to_out[1](attn.to_out[0](out))

    def _attend(self, q: Any, k: Any, v: Any, rotary: Any, *, heads: int) -> jax.Array:
        if rotary is None:
            q, k = to_heads(q, heads), to_heads(k, heads)
        else:
            # one and the same angle for both neighbors: cosines and sines are each there twice
            freqs = tuple(each.reshape(each.shape[1], -1) for each in rotary)
            q, k = heads_first(q, freqs), heads_first(k, freqs)
        v = to_heads(v, heads)
        return from_heads(attention(q, k, v, causal=False, generation=self.generation))
