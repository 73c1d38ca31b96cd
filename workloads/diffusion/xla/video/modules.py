"""The parts of a Wan pipeline: text encoder, denoiser, and the decoder of one latent frame.

The decoder remembers the last two inputs of each convolution in time, as diffusers does. The first
latent frame becomes one frame of the video and each further one four, so there are two programs,
whose memory does not depend on the length of the video.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import torch
from diffusers import AutoencoderKLWan, WanTransformer3DModel
from diffusers.models.autoencoders.autoencoder_kl_wan import WanUpsample
from transformers import AutoConfig, UMT5EncoderModel

from ..modules import Part, Weights, denoiser
from .attention import KernelVideoAttention

# diffusers types what these methods take and give too narrowly
_DENOISER: Any = WanTransformer3DModel
_AUTOENCODER: Any = AutoencoderKLWan


class WanPart(Part):
    """A module of diffusers that keeps some of its weights in float32, in every format."""

    def shapes(self, dtype: Any, sharding: Any = None) -> Weights:
        """Return the shape of each weight, as served in `dtype`."""
        kept = tuple(getattr(type(self.module), "_keep_in_fp32_modules", None) or ())
        return {
            name: jax.ShapeDtypeStruct(value.shape, jnp.float32, sharding=sharding)
            if any(part in kept for part in name.split("."))
            else value
            for name, value in super().shapes(dtype, sharding).items()
        }


class _Doubled(WanUpsample):
    """The same for a factor of two, in operations that torchax has."""

    def forward(self, x: Any) -> Any:
        """Return images with each pixel twice in both directions."""
        count, channels, rows, columns = x.shape
        wide = x[:, :, :, None, :, None].expand(count, channels, rows, 2, columns, 2)
        return wide.reshape(count, channels, 2 * rows, 2 * columns)


def text_encoder(folder: Path) -> Part:
    """Return UMT5, from token IDs and their mask to one vector per token, zero for padding."""

    def forward(module: Any, ids: Any, mask: Any) -> Any:
        vectors = module(input_ids=ids, attention_mask=mask).last_hidden_state
        return vectors * mask[..., None].to(vectors.dtype)

    return Part(
        folder / "text_encoder",
        lambda at: UMT5EncoderModel._from_config(AutoConfig.from_pretrained(at)),
        forward,
    )


def transformer(folder: Path, rank: int = 0, generation: str | None = None) -> Part:
    """Return the denoiser with the platform's kernels, which predicts the flow.

    Args:
        folder: Folder of the model.
        rank: Rank of the low-rank change for the linear layers of its blocks; 0 for none.
        generation: Generation of the target chip; None for this machine's.
    """

    def forward(module: Any, latents: Any, at: Any, embeds: Any) -> Any:
        return module(
            hidden_states=latents,
            timestep=at,
            encoder_hidden_states=embeds,
            return_dict=False,
        )[0]

    processor = KernelVideoAttention(generation)
    # layers outside of blocks keep float32 in part, and adapters of Wan change none of them
    build = denoiser(_DENOISER, processor, rank, lambda name: name.startswith("blocks."))
    return WanPart(folder / "transformer", build, forward)


def decoder(folder: Path) -> Part:
    """Return the decoder of a latent frame that has predecessors.

    It takes the latent frame and what is remembered, and returns frames and what to remember.
    """

    def forward(module: Any, latents: Any, remembered: Any) -> Any:
        kept = list(remembered)
        frames = module.decoder(module.post_quant_conv(latents), feat_cache=kept, feat_idx=[0])
        return frames, tuple(kept)

    return Part(folder / "vae", _decoder, forward)


def first(part: Part) -> Part:
    """Return the same module as decoder of the first latent frame."""

    def forward(module: Any, latents: Any) -> Any:
        kept: list[Any] = [None] * _conv_count(module.decoder)
        latents = module.post_quant_conv(latents)
        frames = module.decoder(latents, feat_cache=kept, feat_idx=[0], first_chunk=True)
        upsamplers = _upsamplers_in_time(module.decoder)
        found: list[Any] = []
        for each in kept:
            if each is None:  # the places that diffusers counts too many are at the end
                continue
            if isinstance(each, str):
                level, channels = next(upsamplers)
                rows, columns = (2**level * side for side in latents.shape[-2:])
                found.append(latents.new_zeros((latents.shape[0], channels, 2, rows, columns)))
            else:  # one frame: another one before it is zero, as the convolution pads it
                found.append(torch.cat((torch.zeros_like(each), each), dim=2))
        return frames, tuple(found)

    return part.seen_as(forward)


def strip(module: Any) -> Any:
    """Remove the encoder, and use operations that torchax has."""
    module.encoder = torch.nn.Identity()
    module.quant_conv = torch.nn.Identity()
    for each in module.modules():
        if isinstance(each, WanUpsample):
            each.__class__ = _Doubled
    return module


def _decoder(at: Path) -> Any:
    return strip(_AUTOENCODER.from_config(_AUTOENCODER.load_config(at)))


def _conv_count(module: Any) -> int:
    return sum(isinstance(each, torch.nn.Conv3d) for each in module.modules())


def _upsamplers_in_time(module: Any) -> Iterator[tuple[int, int]]:
    """Yield the level, 0 for latents, and the channels of each upsampling in time, in order."""
    for level, block in enumerate(module.up_blocks):
        for each in block.upsamplers or ():
            if each.mode == "upsample3d":
                yield level, each.dim
