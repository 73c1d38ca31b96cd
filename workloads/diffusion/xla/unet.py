"""The parts of a Stable Diffusion XL pipeline that FLUX.1 does not have."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
from diffusers import UNet2DConditionModel
from kernels.attention import attention
from torchax import interop
from transformers import AutoConfig, CLIPTextModel, CLIPTextModelWithProjection

from .heads import from_heads, refuse_mask, to_heads
from .modules import Part, denoiser

# diffusers types what these methods take and give too narrowly
_DENOISER: Any = UNet2DConditionModel


@dataclass(frozen=True)
class KernelSelfAttention:
    """Attention processor of a UNet with the platform's kernel for attention within the image.

    Attention to the prompt has only 77 keys, and is plain XLA.

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
        temb: Any = None,
    ) -> Any:
        """Return the same as diffusers' processor.

        Raises:
            ValueError: There is a mask; Stable Diffusion XL uses none.
        """
        refuse_mask(attention_mask)
        is_own = encoder_hidden_states is None
        seen = hidden_states if is_own else encoder_hidden_states
        attend = partial(self._attend, heads=int(attn.heads), is_own=is_own)
        q, k, v = attn.to_q(hidden_states), attn.to_k(seen), attn.to_v(seen)
        out = interop.call_jax(attend, q, k, v)
        return attn.to_out[1](attn.to_out[0](out))

    def _attend(self, *given: jax.Array, heads: int, is_own: bool) -> jax.Array:
        if is_own:
            turned = (to_heads(each, heads) for each in given)
            return from_heads(attention(*turned, causal=False, generation=self.generation))
        parts = [each.reshape(*each.shape[:2], heads, -1) for each in given]
        out = jax.nn.dot_product_attention(*parts)
        return out.reshape(*out.shape[:2], -1)


def unet(folder: Path, *, rank: int = 0, generation: str | None = None) -> Part:
    """Return the denoiser, which predicts the noise.

    Args:
        folder: Folder of the model.
        rank: Rank of the low-rank change for every linear layer; 0 for none.
        generation: Generation of the target chip; None for this machine's.
    """

    def forward(module: Any, latents: Any, at: Any, embeds: Any, pooled: Any, sizes: Any) -> Any:
        return module(
            latents,
            at,
            encoder_hidden_states=embeds,
            added_cond_kwargs={"text_embeds": pooled, "time_ids": sizes},
            return_dict=False,
        )[0]

    return Part(
        folder / "unet", denoiser(_DENOISER, KernelSelfAttention(generation), rank), forward
    )


def first_encoder(folder: Path) -> Part:
    """Return the smaller CLIP, from token IDs to one vector per token."""

    def forward(module: Any, ids: Any) -> Any:
        return module(input_ids=ids, output_hidden_states=True).hidden_states[-2]

    return Part(
        folder / "text_encoder",
        lambda at: CLIPTextModel._from_config(AutoConfig.from_pretrained(at)),
        forward,
    )


def second_encoder(folder: Path) -> Part:
    """Return the larger CLIP, from token IDs to one vector per token, and one per prompt."""

    def forward(module: Any, ids: Any) -> Any:
        out = module(input_ids=ids, output_hidden_states=True)
        return out.hidden_states[-2], out.text_embeds

    return Part(
        folder / "text_encoder_2",
        lambda at: CLIPTextModelWithProjection._from_config(AutoConfig.from_pretrained(at)),
        forward,
    )
