"""A Stable Diffusion XL pipeline of a few thousand random parameters, in diffusers' layout."""

from pathlib import Path
from typing import Any

import torch
from diffusers import (
    EulerAncestralDiscreteScheduler,
    EulerDiscreteScheduler,
    StableDiffusionXLPipeline,
    UNet2DConditionModel,
)
from safetensors.torch import save_file
from transformers import CLIPTextModel, CLIPTextModelWithProjection

from .tiny import LATENT_CHANNELS, WIDTH, clip_tokenizer, tiny_clip, tiny_vae

_SCHEDULE = {
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "beta_start": 0.00085,
    "steps_offset": 1,
}
"""Schedule of stabilityai/stable-diffusion-xl-base-1.0 and sdxl-turbo (scheduler_config.json)."""


def write_pipeline(folder: Path, seed: int = 0, *, is_distilled: bool = False) -> Path:
    """Write a pipeline, the same for the same seed, and return its folder.

    Args:
        folder: Folder to write to.
        seed: Seed of the parameters.
        is_distilled: Whether it has the schedule of SDXL-Turbo, not that of the base model.
    """
    torch.manual_seed(seed)
    kind: Any = EulerAncestralDiscreteScheduler if is_distilled else EulerDiscreteScheduler
    made: Any = StableDiffusionXLPipeline
    made(
        force_zeros_for_empty_prompt=True,
        scheduler=kind(**_SCHEDULE, timestep_spacing="trailing" if is_distilled else "leading"),
        text_encoder=tiny_clip(CLIPTextModel, layers=3),
        text_encoder_2=tiny_clip(CLIPTextModelWithProjection, layers=3),
        tokenizer=clip_tokenizer(folder / "made"),
        tokenizer_2=clip_tokenizer(folder / "made"),
        unet=_unet(),
        vae=tiny_vae(force_upcast=True, scaling_factor=0.13025),
    ).save_pretrained(folder)
    return folder


def write_adapter(folder: Path, rank: int = 4, seed: int = 1, strength: float = 0.1) -> Path:
    """Write a LoRA adapter of the tiny UNet in kohya's layout, and return its folder."""
    generator = torch.Generator().manual_seed(seed)
    weights: dict[str, torch.Tensor] = {}
    for name, module in _unet().named_modules():
        if isinstance(module, torch.nn.Linear) and ".to_" in name:
            layer = f"lora_unet_{name.replace('.', '_')}"
            inner = (rank, module.in_features), (module.out_features, rank)
            down, up = (torch.randn(shape, generator=generator) * strength for shape in inner)
            weights[f"{layer}.lora_down.weight"] = down
            weights[f"{layer}.lora_up.weight"] = up
            weights[f"{layer}.alpha"] = torch.tensor(rank / 2)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "pytorch_lora_weights.safetensors")
    return folder


def _unet() -> UNet2DConditionModel:
    made: Any = UNet2DConditionModel
    return made(
        addition_embed_type="text_time",
        addition_time_embed_dim=8,
        attention_head_dim=(2, 4),
        block_out_channels=(32, 64),
        cross_attention_dim=2 * WIDTH,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        in_channels=LATENT_CHANNELS,
        layers_per_block=1,
        out_channels=LATENT_CHANNELS,
        projection_class_embeddings_input_dim=6 * 8 + WIDTH,
        sample_size=4,
        transformer_layers_per_block=(1, 2),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        use_linear_projection=True,
    ).eval()
