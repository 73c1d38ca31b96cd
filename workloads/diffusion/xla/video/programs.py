"""The compiled programs of a Wan pipeline: encode, one denoising step, decode one latent frame."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from transformers import AutoConfig

from ...config import Settings
from ...families import WAN
from .. import lora, modules, narrow
from ..keys import Encoder, Key
from ..modules import Weights
from . import modules as parts
from .solver import ORDER

UMT5 = "umt5"
FIRST, FURTHER = "decode_first", "decode_further"
"""Stages of the first latent frame of a video, and of each further one."""


@dataclass(frozen=True)
class Geometry:
    """Dimensions of a model that determine programs, besides the shapes of their arguments."""

    channels: int
    """Channels of latents."""
    scale: int
    """Pixels of a side that become one latent."""
    length: int
    """Frames that become one latent frame, after the first."""
    patch: tuple[int, int, int]
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    width: int
    """Width of a vector of a token."""
    is_guided: bool

    def latents(self, frames: int, height: int, width: int) -> tuple[int, int, int, int]:
        """Return channels, latent frames, rows and columns of a video's latents."""
        length = 1 + (frames - 1) // self.length
        return self.channels, length, height // self.scale, width // self.scale


class WanPrograms:
    """Functions of a pipeline, and the shapes of their arguments.

    Args:
        settings: Settings of the model; of its folder, only the configuration files are read.
        dtype: Number format of the modules; latents and the decoder have float32.
        generation: Generation of the target chip; None for this machine's.

    Raises:
        ValueError: The model differs from Wan 2.1 in a way that needs other code.
    """

    def __init__(self, settings: Settings, dtype: Any, generation: str | None = None) -> None:
        self.folder = Path(settings.folder)
        self.dtype = dtype
        self._tokens = settings.text_tokens
        self._text_bits = settings.text_encoder_bits
        self._generation = generation
        self._transformer = _read(self.folder / "transformer" / "config.json")
        self._vae = _read(self.folder / "vae" / "config.json")
        self._check()
        text: Any = AutoConfig.from_pretrained(self.folder / "text_encoder")
        self.geometry = Geometry(
            channels=self._vae["z_dim"],
            deviation=tuple(self._vae["latents_std"]),
            is_guided=settings.is_guided,
            length=self._vae.get("scale_factor_temporal", 4),
            mean=tuple(self._vae["latents_mean"]),
            patch=tuple(self._transformer["patch_size"]),
            scale=self._vae.get("scale_factor_spatial", 8),
            width=text.d_model,
        )
        self._check_sizes(settings)
        self.encoders = (Encoder(UMT5, "tokenizer", self._tokens),)
        self._parts = modules.Parts()

    def _check(self) -> None:
        """Reject a model that would give other videos than diffusers.

        Raises:
            ValueError: The message has file, key, rule and value.
        """
        whole = _read(self.folder / "model_index.json")
        schedule = _read(self.folder / "scheduler" / "scheduler_config.json")
        for file, given, key, allowed in (
            ("model_index.json", whole, "_class_name", ("WanPipeline",)),
            ("model_index.json", whole, "boundary_ratio", (None,)),
            ("model_index.json", whole, "expand_timesteps", (False, None)),
            ("scheduler_config.json", schedule, "_class_name", ("UniPCMultistepScheduler",)),
            ("scheduler_config.json", schedule, "prediction_type", ("flow_prediction",)),
            ("scheduler_config.json", schedule, "use_flow_sigmas", (True,)),
            ("scheduler_config.json", schedule, "predict_x0", (True, None)),
            ("scheduler_config.json", schedule, "solver_order", (ORDER, None)),
            ("scheduler_config.json", schedule, "thresholding", (False, None)),
            ("scheduler_config.json", schedule, "use_dynamic_shifting", (False, None)),
            ("transformer/config.json", self._transformer, "image_dim", (None,)),
            ("transformer/config.json", self._transformer, "added_kv_proj_dim", (None,)),
            ("transformer/config.json", self._transformer, "in_channels", (self._vae["z_dim"],)),
            ("vae/config.json", self._vae, "is_residual", (False, None)),
            ("vae/config.json", self._vae, "patch_size", (None,)),
        ):
            if given.get(key) not in allowed:
                rule = " or ".join("unset" if each is None else str(each) for each in allowed)
                raise ValueError(f"{file}: {key}: must be {rule} for {WAN}, got {given.get(key)}")

    def _check_sizes(self, settings: Settings) -> None:
        side = self.geometry.scale * max(self.geometry.patch[1:])
        for width, height in settings.sizes:
            if width % side or height % side:
                rule = f"must be multiples of {side} for {WAN}"
                raise ValueError(f"sizes: {rule}, got {width}x{height}")

    def part(self, stage: str, rank: int = 0) -> modules.Part:
        """Return the module of a stage; for a step, with adapters of a rank."""
        makers: dict[str, Callable[[], modules.Part]] = {
            FIRST: lambda: parts.first(self.part(FURTHER)),
            FURTHER: lambda: parts.decoder(self.folder),
            "step": lambda: parts.transformer(self.folder, rank, self._generation),
            UMT5: lambda: parts.text_encoder(self.folder),
        }
        return self._parts.get(f"{stage}-{rank}", makers[stage])

    def adapter(self, folder: Path) -> lora.Changes:
        """Return the changes of an adapter's files.

        Raises:
            ValueError: It cannot be read, or changes more than the denoiser.
        """
        return lora.video_changes(folder)

    def low_rank(self, rank: int) -> Weights:
        """Return the shapes of the arrays of an adapter of a rank, by name."""
        return lora.low_rank(self.part("step", rank).shapes(self.dtype))

    def function(self, key: Key) -> Callable[..., Any]:
        """Return a program's function; its arguments are weights first, then arrays."""
        part = self.part(key.stage, key.rank)
        if key.stage == "step":
            return self._step(part)
        if key.stage == UMT5:
            return lambda weights, *given: part(narrow.widened(weights, self.dtype), *given).astype(
                self.dtype
            )
        return self._decode(part)

    def load(self, stage: str) -> Weights:
        """Read the weights of a stage and copy them to this process's device."""
        is_decoder = stage == FURTHER
        weights = self.part(stage).load(self._format(stage), parts.strip if is_decoder else None)
        is_narrow = stage == UMT5 and self._text_bits == 8
        return narrow.narrowed(weights) if is_narrow else weights

    def shapes(self, key: Key, sharding: Any = None) -> tuple[Any, ...]:
        """Return the shapes of a program's arguments."""

        def shape(*sides: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(sides, dtype, sharding=sharding)

        weights = self.part(key.stage, key.rank).shapes(self._format(key.stage), sharding)
        if key.stage == UMT5:
            is_narrow = self._text_bits == 8
            ids = shape(1, self._tokens, dtype=jnp.int32)
            return narrow.narrowed_shapes(weights) if is_narrow else weights, ids, ids
        if key.stage == "step":
            latents = shape(1, *self.geometry.latents(key.frames, key.height, key.width))
            passes = 2 if self.geometry.is_guided else 1
            embeds = shape(passes, self._tokens, self.geometry.width, dtype=self.dtype)
            numbers = shape(), shape(), shape(2, 5), shape()  # time, noise, weights, guidance
            change = lora.low_rank(weights)
            weights = {name: value for name, value in weights.items() if name not in change}
            return weights, (latents,) * 4, embeds, *numbers, change
        latents = shape(1, *self.geometry.latents(1, key.height, key.width))
        if key.stage == FIRST:
            return weights, latents
        before = Key(FIRST, 1, key.height, key.width)
        _, remembered = jax.eval_shape(self.function(before), *self.shapes(before))
        return weights, latents, tuple(shape(*each.shape) for each in remembered)

    def noise(self, seed: int, frames: int, height: int, width: int) -> np.ndarray:
        """Return the initial noise of a video, the same as diffusers' for the seed."""
        generator = torch.Generator().manual_seed(seed)
        sides = self.geometry.latents(frames, height, width)
        return torch.randn((1, *sides), generator=generator).numpy()

    def _format(self, stage: str) -> Any:
        """Return the number format of a stage; the decoder has float32, as on the model's card."""
        return jnp.float32 if stage in (FIRST, FURTHER) else self.dtype

    def _step(self, part: modules.Part) -> Callable[..., Any]:
        """Return one step of UniPC: from latents and what it remembers to the same after it."""

        def step(
            weights: Weights,
            state: tuple[Any, Any, Any, Any],
            embeds: Any,
            at: Any,
            sigma: Any,
            solver: Any,
            guidance: Any,
            low_rank: Weights,
        ) -> Any:
            weights = {**weights, **low_rank}
            latents, _, before, _ = state
            given = latents.astype(self.dtype)
            time = jnp.full((1,), at, jnp.float32)

            def flow_of(embed: Any) -> Any:
                return part(weights, given, time, embed[None]).astype(jnp.float32)

            # one pass after the other: a video fills the chip, and half the memory is enough
            flows = jax.lax.map(flow_of, embeds)
            flow = flows[0]
            if self.geometry.is_guided:
                flow = flows[1] + guidance * (flows[0] - flows[1])
            expected = latents - sigma * flow
            terms = (*state, expected)
            corrected, following = (
                sum(row[at] * each for at, each in enumerate(terms))
                for row in (solver[0], solver[1])
            )
            return following, corrected, expected, before

        return step

    def _decode(self, part: modules.Part) -> Callable[..., Any]:
        sizes = self.geometry

        def decode(weights: Weights, latents: Any, *remembered: Any) -> Any:
            sides = (1, sizes.channels, 1, 1, 1)
            mean, deviation = (
                jnp.asarray(each, jnp.float32).reshape(sides)
                for each in (sizes.mean, sizes.deviation)
            )
            frames, kept = part(weights, latents * deviation + mean, *remembered)
            pixels = jnp.clip(frames[0].transpose(1, 2, 3, 0) / 2 + 0.5, 0, 1)
            return jnp.round(pixels * 255).astype(jnp.uint8), kept

        return decode


def keys(settings: Settings, ranks: list[int]) -> list[Key]:
    """Return every program that a server with these settings may need.

    Args:
        settings: Settings of the server.
        ranks: Ranks of adapters; programs without an adapter are always included.
    """
    found = [Key(UMT5, 1)]
    for width, height in settings.sizes:
        found += [
            Key("step", 1, height, width, rank, frames=count)
            for count in settings.frames
            for rank in (0, *ranks)
        ]
        found += [Key(stage, 1, height, width) for stage in (FIRST, FURTHER)]
    return found


def _read(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text())
