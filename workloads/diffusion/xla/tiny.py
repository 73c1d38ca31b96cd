"""A Flux pipeline of a few thousand random parameters, created on demand, in diffusers' layout.

It has every part of a real one, so everything but the quality of pictures can be tried with it.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from diffusers import (
    AutoencoderKL,
    FlowMatchEulerDiscreteScheduler,
    FluxFillPipeline,
    FluxPipeline,
    FluxTransformer2DModel,
)
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    CLIPTextConfig,
    CLIPTextModel,
    CLIPTokenizer,
    PreTrainedTokenizerFast,
    T5Config,
    T5EncoderModel,
)

TOKENS = 16
"""Longest prompt of the T5 encoder, in tokens."""
WIDTH = 32
LATENT_CHANNELS = 4


def write_pipeline(folder: Path, seed: int = 0, kind: Any = FluxPipeline) -> Path:
    """Write a pipeline, the same for the same seed, and return its folder.

    Args:
        folder: Folder to write.
        seed: Seed of its weights.
        kind: Class of diffusers' pipeline, whose transformer differs for `FluxFillPipeline`.
    """
    torch.manual_seed(seed)
    kind(
        scheduler=FlowMatchEulerDiscreteScheduler(shift=1.0),
        text_encoder=tiny_clip(CLIPTextModel, layers=2),
        text_encoder_2=_t5(),
        tokenizer=clip_tokenizer(folder / "made"),
        tokenizer_2=byte_tokenizer(),
        transformer=_transformer(_FILL_CHANNELS if kind is FluxFillPipeline else 0),
        vae=tiny_vae(
            scaling_factor=0.3611,
            shift_factor=0.1159,
            use_post_quant_conv=False,
            use_quant_conv=False,
        ),
    ).save_pretrained(folder)
    return folder


def write_adapter(folder: Path, rank: int = 4, seed: int = 1, strength: float = 0.5) -> Path:
    """Write a LoRA adapter of the tiny transformer, in diffusers' layout, and return its folder."""
    return adapter_of(
        _transformer(), lambda name: ".attn.to_" in name, folder, rank, seed, strength
    )


def adapter_of(
    transformer: torch.nn.Module,
    wanted: Callable[[str], bool],
    folder: Path,
    rank: int,
    seed: int,
    strength: float = 0.5,
) -> Path:
    """Write a LoRA adapter of those linear layers of a transformer, and return its folder."""
    generator = torch.Generator().manual_seed(seed)
    weights: dict[str, torch.Tensor] = {}
    for name, module in transformer.named_modules():
        if isinstance(module, torch.nn.Linear) and wanted(name):
            inner = (rank, module.in_features), (module.out_features, rank)
            down, up = (torch.randn(shape, generator=generator) * strength for shape in inner)
            weights[f"transformer.{name}.lora_A.weight"] = down
            weights[f"transformer.{name}.lora_B.weight"] = up
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "pytorch_lora_weights.safetensors")
    return folder


_FILL_CHANNELS = 4 * LATENT_CHANNELS + 16**2
"""Further channels of Fill: the latents of the image, and all pixels of a patch of the mask."""


def _transformer(further: int = 0) -> FluxTransformer2DModel:
    return FluxTransformer2DModel(
        attention_head_dim=16,
        axes_dims_rope=(4, 6, 6),
        guidance_embeds=False,
        in_channels=4 * LATENT_CHANNELS + further,
        joint_attention_dim=WIDTH,
        num_attention_heads=2,
        num_layers=1,
        num_single_layers=2,
        out_channels=4 * LATENT_CHANNELS,
        patch_size=1,
        pooled_projection_dim=WIDTH,
    ).eval()


def tiny_vae(**differences: Any) -> AutoencoderKL:
    """Return an autoencoder, with settings by which a family's differs."""
    made: Any = AutoencoderKL
    return made(
        block_out_channels=(8, 8, 16, 16),
        down_block_types=("DownEncoderBlock2D",) * 4,
        in_channels=3,
        latent_channels=LATENT_CHANNELS,
        layers_per_block=1,
        norm_num_groups=4,
        out_channels=3,
        sample_size=32,
        up_block_types=("UpDecoderBlock2D",) * 4,
        **differences,
    ).eval()


def tiny_clip(kind: Any, layers: int) -> Any:
    """Return a CLIP text encoder of a class of transformers, with a number of layers."""
    return kind(
        CLIPTextConfig(
            bos_token_id=0,
            eos_token_id=2,
            hidden_size=WIDTH,
            intermediate_size=37,
            max_position_embeddings=77,
            num_attention_heads=4,
            num_hidden_layers=layers,
            pad_token_id=1,
            projection_dim=WIDTH,
            vocab_size=1000,
        )
    ).eval()


def _t5() -> T5EncoderModel:
    return T5EncoderModel(
        T5Config(
            d_ff=37,
            d_kv=8,
            d_model=WIDTH,
            num_heads=4,
            num_layers=2,
            vocab_size=300,
        )
    ).eval()


def _letters() -> list[str]:
    """Return a character for each byte, as byte-level tokenizers write them."""
    return sorted(pre_tokenizers.ByteLevel.alphabet())


def clip_tokenizer(folder: Path) -> CLIPTokenizer:
    """Return a tokenizer with one token for each byte and no longer tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    letters = _letters()
    words = ["<|startoftext|>", "<|pad|>", "<|endoftext|>"]
    words += [*letters, *(f"{letter}</w>" for letter in letters)]
    (folder / "vocab.json").write_text(json.dumps({word: at for at, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    return CLIPTokenizer.from_pretrained(
        folder,
        model_max_length=77,
        pad_token="<|endoftext|>",  # noqa: S106 - no secret
    )


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer with a token for each byte."""
    words = ["<pad>", "</s>", "<unk>", *_letters()]
    vocabulary = {word: at for at, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))  # noqa: S106
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            pre_tokenizers.Split("", "isolated"),
        ]
    )
    return PreTrainedTokenizerFast(
        eos_token="</s>",  # noqa: S106
        model_max_length=TOKENS,
        pad_token="<pad>",  # noqa: S106
        tokenizer_object=tokenizer,
        unk_token="<unk>",  # noqa: S106
    )
