"""The denoiser in parts that share its weights, as in `FluxTransformer2DModel.forward`."""

from collections.abc import Callable
from typing import Any

import torch


def begin(module: Any, latents: Any, embeds: Any, pooled: Any, at: Any, rest: Any) -> Any:
    """Return the inputs of the first block: image, text, time and prompt, cosines, sines."""
    image_ids, text_ids, guidance = rest
    picture = module.x_embedder(latents)
    numbers = [at.to(picture.dtype) * 1000]
    if guidance is not None:
        numbers.append(guidance.to(picture.dtype) * 1000)
    mood = module.time_text_embed(*numbers, pooled)
    places = module.pos_embed(torch.cat((text_ids, image_ids), dim=0))
    return picture, module.context_embedder(embeds), mood, *places


def count(module: Any) -> int:
    """Return the number of blocks."""
    return len(module.transformer_blocks) + len(module.single_transformer_blocks)


def block(number: int) -> Callable[..., Any]:
    """Return the function of one block, which returns image and text."""

    def forward(module: Any, picture: Any, text: Any, mood: Any, cosine: Any, sine: Any) -> Any:
        every = (*module.transformer_blocks, *module.single_transformer_blocks)
        text, picture = every[number](
            hidden_states=picture,
            encoder_hidden_states=text,
            temb=mood,
            image_rotary_emb=(cosine, sine),
        )
        return picture, text

    return forward


def end(module: Any, picture: Any, mood: Any) -> Any:
    """Return the flow."""
    return module.proj_out(module.norm_out(picture, mood))
