"""A Wan pipeline of a few thousand random parameters, in diffusers' layout."""

from pathlib import Path
from typing import Any

import torch
from diffusers import (
    AutoencoderKLWan,
    UniPCMultistepScheduler,
    WanPipeline,
    WanTransformer3DModel,
)
from transformers import UMT5Config, UMT5EncoderModel

from ..tiny import LATENT_CHANNELS, WIDTH, adapter_of, byte_tokenizer

_SCHEDULE = {
    "flow_shift": 3.0,
    "num_train_timesteps": 1000,
    "prediction_type": "flow_prediction",
    "use_flow_sigmas": True,
}
"""Schedule of Wan-AI/Wan2.1-T2V-1.3B-Diffusers (scheduler_config.json)."""


def write_pipeline(folder: Path, seed: int = 0) -> Path:
    """Write a pipeline, the same for the same seed, and return its folder."""
    torch.manual_seed(seed)
    made: Any = WanPipeline
    scheduler: Any = UniPCMultistepScheduler
    made(
        scheduler=scheduler(**_SCHEDULE),
        text_encoder=_umt5(),
        tokenizer=byte_tokenizer(),
        transformer=_transformer(),
        vae=_vae(),
    ).save_pretrained(folder)
    return folder


def write_adapter(folder: Path, rank: int = 4, seed: int = 1) -> Path:
    """Write a LoRA adapter of the tiny transformer, in diffusers' layout, and return its folder."""
    return adapter_of(_transformer(), lambda name: ".attn" in name, folder, rank, seed)


def _umt5() -> UMT5EncoderModel:
    return UMT5EncoderModel(
        UMT5Config(d_ff=37, d_kv=8, d_model=WIDTH, num_heads=4, num_layers=2, vocab_size=300)
    ).eval()


def _transformer() -> WanTransformer3DModel:
    made: Any = WanTransformer3DModel
    return made(
        attention_head_dim=16,
        ffn_dim=48,
        freq_dim=16,
        in_channels=LATENT_CHANNELS,
        num_attention_heads=2,
        num_layers=2,
        out_channels=LATENT_CHANNELS,
        rope_max_seq_len=32,
        text_dim=WIDTH,
    ).eval()


def _vae() -> AutoencoderKLWan:
    made: Any = AutoencoderKLWan
    return made(
        base_dim=8,
        latents_mean=[-0.7571, -0.7089, -0.9113, 0.1075],
        latents_std=[2.8184, 1.4541, 2.3275, 2.6558],
        num_res_blocks=1,
        z_dim=LATENT_CHANNELS,
    ).eval()
