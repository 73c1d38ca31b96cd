"""The parts of a Flux pipeline as pure JAX functions of their weights, through torchax.

The modules themselves stay on torch's meta device: they hold the structure, no number. So the same
code compiles for an absent chip from the configuration files alone.
"""

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
import torchax
from diffusers import AutoencoderKL, FluxTransformer2DModel
from torchax import interop
from transformers import AutoConfig, CLIPTextModel, T5EncoderModel

from .attention import KernelAttention
from .lora import add_low_rank

Weights = dict[str, Any]
"""Parameters and buffers by name: arrays, or their shapes if nothing is loaded."""

# diffusers types what these methods take and give too narrowly
_DENOISER: Any = FluxTransformer2DModel
_AUTOENCODER: Any = AutoencoderKL


class _Wrapped(torch.nn.Module):
    """Module with a function of another module as `forward`; its weights are named `inner.NAME`."""

    def __init__(self, inner: torch.nn.Module, forward: Callable[..., Any]) -> None:
        super().__init__()
        self.inner = inner
        self._forward = forward

    def forward(self, *args: Any) -> Any:
        """Call the function."""
        return self._forward(self.inner, *args)


class Part:
    """A module of the pipeline: its structure, its call, and the location of its weights."""

    def __init__(
        self, folder: Path, build: Callable[[Path], torch.nn.Module], forward: Callable[..., Any]
    ) -> None:
        self._folder = folder
        self._build = build
        with torch.device("meta"):
            self.module = build(folder).eval()
        self._wrapped = _Wrapped(self.module, forward)

    def __call__(self, weights: Weights, *args: Any) -> Any:
        """Call the module with these weights; traceable by JAX."""
        named = {f"inner.{name}": value for name, value in weights.items()}
        with torchax.default_env(), torch.no_grad():
            out = torch.func.functional_call(
                self._wrapped, interop.torch_view(named), interop.torch_view(args)
            )
        return interop.jax_view(out)

    def seen_as(self, forward: Callable[..., Any]) -> "Part":
        """Return the same module with another way to call it."""
        other = copy.copy(self)
        other._wrapped = _Wrapped(self.module, forward)
        return other

    def shapes(self, dtype: Any, sharding: Any = None) -> Weights:
        """Return the shape of each weight, as served in `dtype`."""
        return {
            name: jax.ShapeDtypeStruct(
                tuple(value.shape),
                dtype if value.is_floating_point() else jnp.int32,
                sharding=sharding,
            )
            for name, value in _tensors(self.module)
        }

    def load(self, dtype: Any, finish: Callable[[Any], Any] | None = None) -> Weights:
        """Read the weights and copy them to this process's device, one by one.

        Args:
            dtype: Number format of the weights.
            finish: Removes unused parts; by default, those that serving never calls.

        Raises:
            OSError: The folder has no weights.
        """
        kind: Any = type(self.module)
        loaded = kind.from_pretrained(self._folder, dtype=_torch_dtype(dtype))
        (finish or strip)(loaded)
        wanted = set(dict(_tensors(self.module)))
        return {name: as_array(value) for name, value in _tensors(loaded.eval()) if name in wanted}


class Parts:
    """The modules of a pipeline, each made at its first use."""

    def __init__(self) -> None:
        self._made: dict[str, Part] = {}

    def get(self, name: str, make: Callable[[], Part]) -> Part:
        """Return a module."""
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]


def as_array(tensor: torch.Tensor) -> jax.Array:
    """Return a tensor of the host as an array on the device; bfloat16 keeps its bits.

    Formats are changed on the host: JAX would compile a program for each shape.
    """
    tensor = tensor.detach().contiguous()
    if tensor.dtype is torch.bfloat16:
        return jax.device_put(tensor.view(torch.int16).numpy().view(jnp.bfloat16))
    array = tensor.numpy()
    return jax.device_put(array.astype(np.int32) if array.dtype == np.int64 else array)


def strip(module: Any) -> Any:
    """Remove the part that serving never calls: the encoder of the image autoencoder."""
    if isinstance(module, _AUTOENCODER):
        module.encoder = torch.nn.Identity()
        module.quant_conv = None
    return module


def text_encoder(folder: Path) -> Part:
    """Return CLIP, from token IDs to one vector per prompt."""
    return Part(
        folder / "text_encoder",
        lambda at: CLIPTextModel._from_config(AutoConfig.from_pretrained(at)),
        lambda module, ids: module(input_ids=ids).pooler_output,
    )


def long_text_encoder(folder: Path) -> Part:
    """Return T5, from token IDs to one vector per token."""
    return Part(
        folder / "text_encoder_2",
        lambda at: T5EncoderModel._from_config(AutoConfig.from_pretrained(at)),
        lambda module, ids: module(input_ids=ids).last_hidden_state,
    )


def denoiser(
    kind: Any, processor: Any, rank: int, wanted: Callable[[str], bool] = bool
) -> Callable[[Path], torch.nn.Module]:
    """Return a function that builds a denoiser from the folder of its configuration.

    Args:
        kind: Class of diffusers.
        processor: Processor of its attention.
        rank: Rank of the low-rank change for linear layers; 0 for none.
        wanted: Function that selects those layers by name; by default, all.
    """

    def build(at: Path) -> torch.nn.Module:
        made = kind.from_config(kind.load_config(at))
        made.set_attn_processor(processor)
        return add_low_rank(made, rank, wanted) if rank else made

    return build


def transformer(folder: Path, *, rank: int = 0, generation: str | None = None) -> Part:
    """Return the denoiser with the platform's kernels.

    Args:
        folder: Folder of the model.
        rank: Rank of the low-rank change for every linear layer; 0 for none.
        generation: Generation of the target chip; None for this machine's.
    """

    def forward(module: Any, latents: Any, embeds: Any, pooled: Any, at: Any, rest: Any) -> Any:
        image_ids, text_ids, guidance = rest
        return module(
            hidden_states=latents,
            encoder_hidden_states=embeds,
            pooled_projections=pooled,
            timestep=at,
            img_ids=image_ids,
            txt_ids=text_ids,
            guidance=guidance,
            return_dict=False,
        )[0]

    return Part(
        folder / "transformer", denoiser(_DENOISER, KernelAttention(generation), rank), forward
    )


def image_encoder(folder: Path) -> Part:
    """Return the encoder from images to latents, which uses the mode of the distribution."""
    return Part(
        folder / "vae",
        lambda at: _AUTOENCODER.from_config(_AUTOENCODER.load_config(at)),
        lambda module, pixels: module.encode(pixels).latent_dist.mode(),
    )


def image_distribution(folder: Path) -> Part:
    """Return the encoder from images to the mean and the deviation of their latents."""

    def moments(module: Any, pixels: Any) -> tuple[Any, Any]:
        found = module.encode(pixels).latent_dist
        return found.mean, found.std

    return Part(
        folder / "vae",
        lambda at: without_decoder(_AUTOENCODER.from_config(_AUTOENCODER.load_config(at))),
        moments,
    )


def without_decoder(module: Any) -> Any:
    """Remove the part of the image autoencoder that no encoding calls."""
    module.decoder = torch.nn.Identity()
    module.post_quant_conv = None
    return module


def image_decoder(folder: Path) -> Part:
    """Return the decoder from latents to images."""
    return Part(
        folder / "vae",
        lambda at: strip(_AUTOENCODER.from_config(_AUTOENCODER.load_config(at))),
        lambda module, latents: module.decode(latents, return_dict=False)[0],
    )


def _tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()


def _torch_dtype(dtype: Any) -> torch.dtype:
    return torch.bfloat16 if dtype == jnp.bfloat16 else torch.float32
