"""LoRA adapters: read in any layout diffusers knows, applied beside the weights, never into them.

A linear layer returns `Wx + up(down(x))`. The base weights do not change, so an adapter takes a few
hundred megabytes, can change with each batch, and leaves nothing behind.
"""

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from diffusers import FluxPipeline, StableDiffusionXLPipeline, WanPipeline
from diffusers.utils import convert_unet_state_dict_to_peft
from torch.nn import functional

from ..config import RANKS

Changes = dict[str, tuple[np.ndarray, np.ndarray]]
"""Both parts of an adapter's change of each layer; the second includes the scale."""
_TITLES = {"transformer": "transformer", "unet": "UNet"}


class LowRankLinear(torch.nn.Linear):
    """A linear layer with a low-rank change."""

    lora_down: torch.Tensor
    lora_up: torch.Tensor

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - torch's own name
        """Return the output of the layer and its low-rank change."""
        change = functional.linear(functional.linear(input, self.lora_down), self.lora_up)
        return super().forward(input) + change


def add_low_rank(
    module: torch.nn.Module, rank: int, wanted: Callable[[str], bool] = bool
) -> torch.nn.Module:
    """Add a change of `rank` to the linear layers of a module, in place.

    Args:
        module: Module of the denoiser.
        rank: Rank of the change.
        wanted: Function that selects layers by name; by default, all.
    """
    for name, layer in module.named_modules():
        if type(layer) is torch.nn.Linear and wanted(name):
            layer.__class__ = LowRankLinear
            down, up = (rank, layer.in_features), (layer.out_features, rank)
            layer.register_buffer("lora_down", layer.weight.new_empty(down))
            layer.register_buffer("lora_up", layer.weight.new_empty(up))
    return module


def low_rank(weights: dict[str, Any]) -> dict[str, Any]:
    """Return those weights of a module that an adapter has, by name."""
    return {name: value for name, value in weights.items() if ".lora_" in name}


def read_adapter(
    changes: Changes, wanted: dict[str, Any], rank: int, most: int | None = None
) -> dict[str, np.ndarray]:
    """Return an adapter as arrays `LAYER.lora_down` and `LAYER.lora_up`, zeros if it has none.

    Args:
        changes: Changes of the adapter.
        wanted: Shapes of all such arrays, by name.
        rank: Rank to pad them to.
        most: Maximum rank of the adapter; None for `rank`.

    Raises:
        ValueError: It is not an adapter for this model; the message has the reason.
    """
    most = most or rank
    strange = sorted(name for name in changes if f"{name}.lora_down" not in wanted)
    if strange or not changes:
        raise ValueError(f"must change layers of this model, got {strange[:1] or 'nothing'}")
    out = {name: np.zeros(shape.shape, np.float32) for name, shape in wanted.items()}
    for name, (down, up) in changes.items():
        mine = down.shape[0]
        if mine > most:
            raise ValueError(f"must have at most rank {most}, got {mine} at {name}")
        if up.shape[1] != mine:
            raise ValueError(f"must have one rank in both parts, got {down.shape}, {up.shape}")
        wide: tuple[Any, Any] = out[f"{name}.lora_down"], out[f"{name}.lora_up"]
        if (wide[0].shape[1], wide[1].shape[0]) != (down.shape[1], up.shape[0]):
            raise ValueError(f"must fit layer {name}, got {down.shape} and {up.shape}")
        wide[0][:mine], wide[1][:, :mine] = down, up
    return out


def rank_of(changes: Changes) -> int:
    """Return the smallest of `RANKS` that holds an adapter.

    Raises:
        ValueError: None does.
    """
    mine = max((down.shape[0] for down, _ in changes.values()), default=0)
    for rank in RANKS:
        if mine <= rank:
            return rank
    raise ValueError(f"must have at most rank {RANKS[-1]}, got {mine}")


def transformer_changes(folder: Path) -> Changes:
    """Return the changes of a FLUX.1 transformer.

    Args:
        folder: Folder with `*.safetensors` in the format of diffusers, PEFT, kohya or BFL.

    Raises:
        ValueError: The files cannot be read, or change more than the transformer.
    """
    reader: Any = FluxPipeline
    try:
        state, alphas, told = reader.lora_state_dict(
            str(folder), return_alphas=True, return_lora_metadata=True
        )
    except Exception as error:  # the readers' errors, such as of half a file, have no common parent
        raise ValueError(f"must be an adapter that can be read: {error}") from error
    return _changes("transformer", state, alphas or {}, told or {})


def video_changes(folder: Path) -> Changes:
    """Return the changes of a transformer of Wan.

    Args:
        folder: Folder with `*.safetensors` in the format of diffusers, PEFT, musubi or Wan itself.

    Raises:
        ValueError: The files cannot be read, or change more than the transformer.
    """
    reader: Any = WanPipeline
    try:
        state, told = reader.lora_state_dict(str(folder), return_lora_metadata=True)
    except Exception as error:  # as above
        raise ValueError(f"must be an adapter that can be read: {error}") from error
    return _changes("transformer", state, {}, told or {})


def unet_changes(folder: Path, layers_per_block: int) -> Changes:
    """Return the changes of a UNet of Stable Diffusion XL.

    Args:
        folder: Folder with `*.safetensors` in the format of diffusers, PEFT or kohya.
        layers_per_block: Layers of a block of the UNet, by which kohya's names are translated.

    Raises:
        ValueError: The files cannot be read, or change more than the UNet.
    """
    reader: Any = StableDiffusionXLPipeline
    try:
        names = SimpleNamespace(layers_per_block=layers_per_block)
        state, alphas, told = reader.lora_state_dict(
            str(folder), unet_config=names, return_lora_metadata=True
        )
        state = convert_unet_state_dict_to_peft(state)
        alphas = convert_unet_state_dict_to_peft(
            {name.removesuffix(".alpha"): alpha for name, alpha in (alphas or {}).items()}
        )
    except Exception as error:  # as above
        raise ValueError(f"must be an adapter that can be read: {error}") from error
    scales = {f"{name.partition('.lora_A')[0]}.alpha": alpha for name, alpha in alphas.items()}
    return _changes("unet", state, scales, told or {})


def _changes(
    denoiser: str, state: dict[str, torch.Tensor], alphas: dict[str, float], told: dict[str, Any]
) -> Changes:
    """Return both parts by layer; the second is scaled by `alpha / rank` if the files have alpha.

    Args:
        denoiser: Name of the denoiser in the pipeline, with which its layers' names begin.
        state: Tensors of the files.
        alphas: Alpha of each layer, if the files have any.
        told: Metadata of the files, which PEFT writes.

    Raises:
        ValueError: The files change more than linear layers of the denoiser.
    """
    own = re.compile(rf"{denoiser}\.(.+)\.lora_[AB]\.weight")
    others = sorted(name for name in state if not own.fullmatch(name))
    if others:
        raise ValueError(f"must change the {_TITLES[denoiser]} alone, got {others[0]}")
    otherwise = _told_scale(denoiser, told)
    found: Changes = {}
    for name in dict.fromkeys(own.sub(r"\1", key) for key in state):
        down, up = (state[f"{denoiser}.{name}.lora_{part}.weight"].float().numpy() for part in "AB")
        if down.ndim != 2 or up.ndim != 2:
            raise ValueError(f"{name} must have two matrices, got {down.shape} and {up.shape}")
        alpha = alphas.get(f"{denoiser}.{name}.alpha")
        scale = otherwise if alpha is None else float(alpha) / down.shape[0]
        found[name] = down, up * scale
    return found


def _told_scale(denoiser: str, told: dict[str, Any]) -> float:
    """Return the scale in the metadata of an adapter that PEFT wrote, for layers without alpha.

    Raises:
        ValueError: Layers have different scales.
    """
    rank, alpha = told.get(f"{denoiser}.r"), told.get(f"{denoiser}.lora_alpha")
    odd = [
        name
        for name in ("alpha_pattern", "rank_pattern", "use_dora")
        if told.get(f"{denoiser}.{name}")
    ]
    if odd:
        raise ValueError(f"must have one rank and scale for all layers, got {odd[0]}")
    return float(alpha) / float(rank) if rank and alpha else 1.0
