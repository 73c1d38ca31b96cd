"""The compiled programs of a Stable Diffusion XL pipeline: encode, one denoising step, decode.

The UNet predicts noise. With guidance, each step runs it on a batch of twice the size, half of it
without the prompt. A step follows the prediction as diffusers' Euler schedulers do.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import diffusers
import jax
import jax.numpy as jnp
import numpy as np
import torch
from diffusers import AutoencoderKL
from transformers import AutoConfig

from ..config import Settings
from ..families import SDXL
from . import lora, modules, unet
from .keys import CLIP_TOKENS, Encoder, Key, Moment, Schedule
from .modules import Weights

_ANCESTRAL = "EulerAncestralDiscreteScheduler"
SCHEDULERS = ("EulerDiscreteScheduler", _ANCESTRAL)
"""Schedulers that a model may name. Others keep more than the latents from step to step, or scale
noise in another way."""
_AUTOENCODER: Any = AutoencoderKL


@dataclass(frozen=True)
class Geometry:
    """Dimensions of a model that determine programs, besides the shapes of their arguments."""

    channels: int
    """Channels of latents."""
    scale: int
    """Pixels of a side that become one latent."""
    scaling_factor: float
    width: int
    """Width of a vector of a token, of both encoders together."""
    pooled: int
    """Width of the vector of a prompt."""
    is_guided: bool
    is_upcast: bool
    """Whether the decoder needs float32."""


class SdxlPrograms:
    """Functions of a pipeline, and the shapes of their arguments.

    Args:
        folder: Folder of the model; only its configuration files are read.
        dtype: Number format of the modules; latents stay in float32.
        generation: Generation of the target chip; None for this machine's.
        is_guided: Whether a step also runs without the prompt.

    Raises:
        ValueError: The model differs from Stable Diffusion XL in a way that needs other code.
    """

    def __init__(
        self, folder: Path, dtype: Any, generation: str | None = None, *, is_guided: bool
    ) -> None:
        self.folder = folder
        self.dtype = dtype
        self._generation = generation
        self._unet = _read(folder / "unet" / "config.json")
        self._vae = _read(folder / "vae" / "config.json")
        self._schedule = _read(folder / "scheduler" / "scheduler_config.json")
        self._check()
        texts = [AutoConfig.from_pretrained(folder / f"text_encoder{at}") for at in ("", "_2")]
        self.geometry = Geometry(
            channels=self._vae["latent_channels"],
            is_guided=is_guided,
            is_upcast=bool(self._vae.get("force_upcast", True)),
            pooled=texts[1].projection_dim,
            scale=2 ** (len(self._vae["block_out_channels"]) - 1),
            scaling_factor=self._vae["scaling_factor"],
            width=sum(text.hidden_size for text in texts),
        )
        self.encoders = (
            Encoder("clip", "tokenizer", CLIP_TOKENS),
            Encoder("clip2", "tokenizer_2", CLIP_TOKENS),
        )
        self._parts = modules.Parts()

    def _check(self) -> None:
        """Reject a model that would give other images than diffusers.

        Raises:
            ValueError: The message has file, key, rule and value.
        """
        whole = _read(self.folder / "model_index.json")
        for file, given, key, allowed in (
            ("model_index.json", whole, "force_zeros_for_empty_prompt", (True, None)),
            ("scheduler_config.json", self._schedule, "_class_name", SCHEDULERS),
            ("scheduler_config.json", self._schedule, "prediction_type", ("epsilon", None)),
            ("unet/config.json", self._unet, "addition_embed_type", ("text_time",)),
            ("unet/config.json", self._unet, "in_channels", (self._vae["latent_channels"],)),
            ("unet/config.json", self._unet, "time_cond_proj_dim", (None,)),
            ("vae/config.json", self._vae, "latents_mean", (None,)),
            ("vae/config.json", self._vae, "shift_factor", (None, 0)),
        ):
            if given.get(key) not in allowed:
                rule = " or ".join("unset" if each is None else str(each) for each in allowed)
                raise ValueError(f"{file}: {key}: must be {rule} for {SDXL}, got {given.get(key)}")

    def part(self, key: Key) -> modules.Part:
        """Return the module of a program."""
        makers: dict[str, Callable[[], modules.Part]] = {
            "clip": lambda: unet.first_encoder(self.folder),
            "clip2": lambda: unet.second_encoder(self.folder),
            "decode": lambda: modules.image_decoder(self.folder),
            "step": lambda: unet.unet(self.folder, rank=key.rank, generation=self._generation),
        }
        return self._parts.get(f"{key.stage}-{key.rank}", makers[key.stage])

    def function(self, key: Key) -> Callable[..., Any]:
        """Return a program's function; its arguments are weights first, then arrays."""
        part = self.part(key)
        if key.stage == "step":
            return self._step(part, key)
        return self._decode(part) if key.stage == "decode" else part.__call__

    def load(self, stage: str) -> Weights:
        """Read the weights of a stage and copy them to this process's device."""
        return self.part(Key(stage, 1)).load(self._format(stage))

    def adapter(self, folder: Path) -> lora.Changes:
        """Return the changes of an adapter's files.

        Raises:
            ValueError: It cannot be read, or changes more than the UNet.
        """
        return lora.unet_changes(folder, self._unet["layers_per_block"])

    def low_rank(self, rank: int) -> Weights:
        """Return the shapes of the arrays of an adapter of a rank, by name."""
        return lora.low_rank(self.part(Key("step", 1, rank=rank)).shapes(self.dtype))

    def prompt(self, encoded: Sequence[Any]) -> tuple[Any, Any]:
        """Return both encoders' vectors of each token side by side, and that of the prompt."""
        first, (second, pooled) = encoded
        return jnp.concatenate((first, second), axis=-1), pooled

    def shapes(self, key: Key, sharding: Any = None) -> tuple[Any, ...]:
        """Return the shapes of a program's arguments."""

        def shape(*sides: int, dtype: Any = self.dtype) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(sides, dtype, sharding=sharding)

        weights = self.part(key).shapes(self._format(key.stage), sharding)
        if key.stage in ("clip", "clip2"):
            return weights, shape(key.batch, CLIP_TOKENS, dtype=jnp.int32)
        sides = self._sides(key.height, key.width)
        latents = shape(key.batch, self.geometry.channels, *sides, dtype=jnp.float32)
        if key.stage == "decode":
            return weights, latents
        change = lora.low_rank(weights)
        weights = {name: value for name, value in weights.items() if name not in change}
        embeds = shape(key.batch, CLIP_TOKENS, self.geometry.width)
        numbers = (shape(dtype=jnp.float32),) * 4
        return weights, latents, embeds, shape(key.batch, self.geometry.pooled), *numbers, change

    @cached_property
    def _scheduler(self) -> Any:
        kind: Any = getattr(diffusers, self._schedule["_class_name"])
        return kind.from_pretrained(self.folder / "scheduler")

    def schedule(self, settings: Settings, steps: int, height: int, width: int) -> Schedule:
        """Return the noise before and after each step, as diffusers' scheduler of the model."""
        scheduler = self._scheduler
        scheduler.set_timesteps(steps)
        sigmas = scheduler.sigmas.numpy()
        is_ancestral = self._schedule["_class_name"] == _ANCESTRAL
        moments: list[Moment] = []
        for number, at in enumerate(scheduler.timesteps.numpy()):
            now, then = sigmas[number], sigmas[number + 1]
            added = np.float32(0)
            if is_ancestral:
                added = np.sqrt(then**2 * (now**2 - then**2) / now**2)
                then = np.sqrt(then**2 - added**2)
            moments.append(Moment(float(at), float(now), float(then), float(added)))
        return Schedule(tuple(moments), float(scheduler.init_noise_sigma))

    def numbers(self, moment: Moment, guidance: float) -> tuple[np.float32, ...]:
        """Return the step of the training, noise, its change, and guidance.

        Guidance below 1 is none, as in diffusers.
        """
        return (
            np.float32(moment.at),
            np.float32(moment.now),
            np.float32(moment.then - moment.now),
            np.float32(max(guidance, 1.0)),
        )

    def noises(self, seed: int, height: int, width: int) -> Iterator[np.ndarray]:
        """Return the initial noise of an image and then that of its steps, as diffusers'."""
        generator = torch.Generator().manual_seed(seed)
        sides = self.geometry.channels, *self._sides(height, width)
        while True:
            yield torch.randn((1, *sides), generator=generator)[0].numpy()

    def _sides(self, height: int, width: int) -> tuple[int, int]:
        return height // self.geometry.scale, width // self.geometry.scale

    def _format(self, stage: str) -> Any:
        return jnp.float32 if stage == "decode" and self.geometry.is_upcast else self.dtype

    def _step(self, part: Callable[..., Any], key: Key) -> Callable[..., Any]:
        """Return one step of Euler's method from noise to image."""
        sizes = (key.height, key.width, 0, 0, key.height, key.width)

        def step(
            weights: Weights,
            latents: Any,
            embeds: Any,
            pooled: Any,
            at: Any,
            now: Any,
            change: Any,
            guidance: Any,
            low_rank: Weights,
        ) -> Any:
            given = latents / jnp.sqrt(now * now + 1)
            if self.geometry.is_guided:  # the half without the prompt comes first
                given = jnp.concatenate((given, given))
                embeds = jnp.concatenate((jnp.zeros_like(embeds), embeds))
                pooled = jnp.concatenate((jnp.zeros_like(pooled), pooled))
            count = given.shape[0]
            noise = part(
                {**weights, **low_rank},
                given.astype(self.dtype),
                jnp.full((count,), at, jnp.float32),
                embeds,
                pooled,
                jnp.tile(jnp.asarray(sizes, jnp.float32), (count, 1)),
            ).astype(jnp.float32)
            if self.geometry.is_guided:
                without, with_prompt = jnp.split(noise, 2)
                noise = without + guidance * (with_prompt - without)
            return latents + change * noise

        return step

    def _decode(self, part: modules.Part) -> Callable[..., Any]:
        def decode(weights: Weights, latents: Any) -> Any:
            scaled = (latents / self.geometry.scaling_factor).astype(self._format("decode"))
            # one by one: in float32, the activations of an image take gigabytes
            pixels = jax.lax.map(lambda one: part(weights, one[None])[0], scaled)
            pixels = pixels.astype(jnp.float32).transpose(0, 2, 3, 1)
            return jnp.round(jnp.clip(pixels / 2 + 0.5, 0, 1) * 255).astype(jnp.uint8)

        return decode


def _read(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text())
