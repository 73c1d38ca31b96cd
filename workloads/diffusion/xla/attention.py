"""Flux's attention with the platform's kernels, as a processor for diffusers' modules.

Queries and keys are normed, rotated and turned to heads first in one pass over each, and the kernel
takes them as they are. On processors the same functions are plain XLA.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from kernels.attention import attention
from kernels.rotary import Form, heads_first, rotary
from kernels.shapes import Blocks
from torchax import interop

from .heads import from_heads, refuse_mask, to_heads


@dataclass(frozen=True)
class KernelAttention:
    """Attention processor; the defaults are used for serving, other settings for comparisons.

    Args:
        generation: Generation of the target chip; None for this machine's.
        blocks: Block sizes of the kernel; None for the table's.
        form: Form of the rotation; None for one pass with norm and transpose.
    """

    generation: str | None = None
    blocks: Blocks | None = None
    form: Form | None = None

    def __call__(
        self,
        attn: Any,
        hidden_states: Any,
        encoder_hidden_states: Any = None,
        attention_mask: Any = None,
        image_rotary_emb: Any = None,
    ) -> Any:
        """Return the same as diffusers' processor: one stream, or those of the image and the text.

        Raises:
            ValueError: There is a mask; Flux uses none.
        """
        refuse_mask(attention_mask)
        streams = [(hidden_states, attn.to_q, attn.to_k, attn.to_v, attn.norm_q, attn.norm_k)]
        if encoder_hidden_states is not None:
            text = (attn.add_q_proj, attn.add_k_proj, attn.add_v_proj)
            norms = (attn.norm_added_q, attn.norm_added_k)
            streams.insert(0, (encoder_hidden_states, *text, *norms))
        projected = [
            (q(given), k(given), v(given), norm_q.weight, norm_k.weight)
            for given, q, k, v, norm_q, norm_k in streams
        ]
        epsilon = float(attn.norm_q.eps or 1e-6)
        joined = interop.call_jax(self._attend, projected, image_rotary_emb, epsilon)
        if encoder_hidden_states is None:
            return joined
        words = encoder_hidden_states.shape[1]
        picture = attn.to_out[1](attn.to_out[0](joined[:, words:]))
        return picture, attn.to_add_out(joined[:, :words])

    def _attend(self, streams: Any, freqs: Any, epsilon: float) -> jax.Array:
        queries: list[jax.Array] = []
        keys: list[jax.Array] = []
        values: list[jax.Array] = []
        size = freqs[0].shape[-1]
        start = 0
        for q, k, v, weight_q, weight_k in streams:
            end = start + q.shape[1]
            mine = (freqs[0][start:end], freqs[1][start:end])
            queries.append(self._turned(q, mine, weight_q, epsilon))
            keys.append(self._turned(k, mine, weight_k, epsilon))
            values.append(to_heads(v, v.shape[-1] // size))
            start = end
        out = attention(
            *(jnp.concatenate(parts, axis=2) for parts in (queries, keys, values)),
            causal=False,
            block_sizes=self.blocks,
            generation=self.generation,
        )
        return from_heads(out)

    def _turned(self, x: jax.Array, freqs: Any, weight: jax.Array, epsilon: float) -> jax.Array:
        if self.form is None:
            return heads_first(x, freqs, norm_weight=weight, epsilon=epsilon)
        turned = to_heads(x, x.shape[-1] // freqs[0].shape[-1])
        return rotary(turned, freqs, form=self.form, norm_weight=weight, epsilon=epsilon)
