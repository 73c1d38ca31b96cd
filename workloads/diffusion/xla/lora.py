"""LoRA adapters: read in any layout diffusers knows, applied beside the weights, never into them.

A linear layer returns `Wx + up(down(x))`. The base weights do not change, so an adapter takes a few
hundred megabytes, can change with each batch, and leaves nothing behind.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import FluxPipeline
from torch.nn import functional

from ..config import RANKS


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


def read_adapter(
    folder: Path, wanted: dict[str, Any], rank: int, most: int | None = None
) -> dict[str, np.ndarray]:
    """Return an adapter as arrays `LAYER.lora_down` and `LAYER.lora_up`, zeros if it has none.

    Args:
        folder: Folder with `*.safetensors` in the format of diffusers, PEFT, kohya or BFL.
        wanted: Shapes of all such arrays, by name.
        rank: Rank to pad them to.
        most: Maximum rank of the adapter; None for `rank`.

    Raises:
        ValueError: It is not an adapter for this model; the message has the reason.
    """
    changes, most = _changes(folder), most or rank
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


def rank_of(folder: Path) -> int:
    """Return the smallest of `RANKS` that holds an adapter.

    Raises:
        ValueError: None does, or the files cannot be read.
    """
    mine = max((down.shape[0] for down, _ in _changes(folder).values()), default=0)
    for rank in RANKS:
        if mine <= rank:
            return rank
    raise ValueError(f"must have at most rank {RANKS[-1]}, got {mine}")


def _changes(folder: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    try:
        state, alphas = FluxPipeline.lora_state_dict(str(folder), return_alphas=True)
        return _pairs(state, dict(alphas or {}))
    except Exception as error:  # the readers' errors, such as of half a file, have no common parent
        raise ValueError(f"must be an adapter that can be read: {error}") from error


def _pairs(
    state: dict[str, torch.Tensor], alphas: dict[str, float]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return both parts by layer; the second is scaled by `alpha / rank` if the file has alpha."""
    found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for key, value in state.items():
        if not key.startswith("transformer.") or ".lora_A" not in key:
            continue
        name = key.removeprefix("transformer.").partition(".lora_A")[0]
        down = value.float().numpy()
        up = state[key.replace(".lora_A", ".lora_B")].float().numpy()
        if down.ndim != 2 or up.ndim != 2:
            raise ValueError(f"{name} must have two matrices, got {down.shape} and {up.shape}")
        alpha = alphas.get(f"transformer.{name}.alpha")
        scale = 1.0 if alpha is None else float(alpha) / down.shape[0]
        found[name] = down, up * scale
    return found
