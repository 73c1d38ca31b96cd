"""The compiled programs of a FLUX.1 pipeline: encode, one denoising step, decode.

A step is a separate program, so that a request can be canceled between steps, and the number of
steps needs no further program. Programs vary by batch, size of the image, and whether an adapter is
applied. Each combination is compiled once, or ahead of time when the container image is built.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, FluxTransformer2DModel
from transformers import AutoConfig

from ..config import Settings
from ..families import FILL, KONTEXT
from . import first_block, lora, modules, narrow
from .keys import CLIP_TOKENS, Encoder, Key, Moment, Schedule
from .modules import Weights


@dataclass(frozen=True)
class Geometry:
    """Dimensions of a model that determine shapes."""

    latent_channels: int
    scale: int
    """Pixels of a side that become one latent, 8 for FLUX.1."""
    scaling_factor: float
    shift_factor: float
    width: int
    """Width of a T5 vector."""
    pooled: int
    """Width of CLIP's vector."""
    has_guidance: bool
    inner: int
    """Width of a vector in the denoiser's blocks."""

    @property
    def step(self) -> int:
        """Side lengths must be a multiple of it, in pixels: two latents make a patch."""
        return 2 * self.scale

    def patches(self, height: int, width: int) -> int:
        """Return the number of vectors of an image during denoising."""
        return (height // self.step) * (width // self.step)


def geometry(folder: Path) -> Geometry:
    """Return the dimensions of a model from its configuration files."""
    vae: Any = AutoencoderKL.load_config(folder / "vae")
    denoiser: Any = FluxTransformer2DModel.load_config(folder / "transformer")
    return Geometry(
        has_guidance=bool(denoiser["guidance_embeds"]),
        inner=denoiser["num_attention_heads"] * denoiser["attention_head_dim"],
        latent_channels=vae["latent_channels"],
        pooled=AutoConfig.from_pretrained(folder / "text_encoder").hidden_size,
        scale=2 ** (len(vae["block_out_channels"]) - 1),
        scaling_factor=vae["scaling_factor"],
        shift_factor=vae["shift_factor"],
        width=AutoConfig.from_pretrained(folder / "text_encoder_2").d_model,
    )


class Programs:
    """Functions of a pipeline, and the shapes of their arguments.

    Args:
        folder: Folder of the model; only its configuration files are read.
        dtype: Number format of the modules; latents stay in float32.
        text_tokens: Tokens of a prompt for T5.
        generation: Generation of the target chip; None for this machine's.
        text_bits: Bits of T5's weights, 16 or 8.
        edits: `Family.edits` of the model.
    """

    def __init__(
        self,
        folder: Path,
        dtype: Any,
        text_tokens: int,
        generation: str | None = None,
        *,
        text_bits: int = 16,
        edits: str = "",
    ) -> None:
        self.folder = folder
        self.dtype = dtype
        self.text_tokens = text_tokens
        self._generation = generation
        self._text_bits = text_bits
        self.edits = edits
        self.geometry = geometry(folder)
        self.encoders = (
            Encoder("clip", "tokenizer", CLIP_TOKENS),
            Encoder("t5", "tokenizer_2", text_tokens),
        )
        self._parts = modules.Parts()

    @property
    def has_context(self) -> bool:
        """Return whether each step gets an image besides the latents."""
        return self.edits in (FILL, KONTEXT)

    def context_sides(self, patches: int) -> tuple[int, int]:
        """Return the number of vectors of that image, and their width.

        Kontext has them as further patches. Fill has them as further channels, with all pixels of
        a patch of the mask.
        """
        width = 4 * self.geometry.latent_channels
        return patches, width + (self.geometry.step**2 if self.edits == FILL else 0)

    def part(self, key: Key) -> modules.Part:
        """Return the module of a program."""
        makers: dict[str, Callable[[], modules.Part]] = {
            "clip": lambda: modules.text_encoder(self.folder),
            "decode": lambda: modules.image_decoder(self.folder),
            "encode": lambda: modules.image_distribution(self.folder),
            "step": lambda: modules.transformer(
                self.folder, rank=key.rank, generation=self._generation
            ),
            "t5": lambda: modules.long_text_encoder(self.folder),
        }
        return self._parts.get(f"{key.stage}-{key.rank}", makers[key.stage])

    def function(self, key: Key) -> Callable[..., Any]:
        """Return a program's function; its arguments are weights first, then arrays."""
        part = self.part(key)
        if key.stage == "step":
            return self._reusing(key) if key.reuses else self._step(part, key)
        if key.stage == "decode":
            return self._decode(part, key)
        if key.stage == "encode":
            return self._encode(part)
        return lambda weights, ids: part(narrow.widened(weights, self.dtype), ids).astype(
            self.dtype
        )

    def load(self, stage: str) -> Weights:
        """Read the weights of a stage and copy them to this process's device."""
        finish = modules.without_decoder if stage == "encode" else None
        weights = self.part(Key(stage, 1)).load(self.dtype, finish)
        is_narrow = stage == "t5" and self._text_bits == 8
        return narrow.narrowed(weights) if is_narrow else weights

    def adapter(self, folder: Path) -> lora.Changes:
        """Return the changes of an adapter's files.

        Raises:
            ValueError: It cannot be read.
        """
        return lora.transformer_changes(folder)

    def low_rank(self, rank: int) -> Weights:
        """Return the shapes of the arrays of an adapter of a rank, by name."""
        return lora.low_rank(self.part(Key("step", 1, rank=rank)).shapes(self.dtype))

    def prompt(self, encoded: Sequence[Any]) -> tuple[Any, Any]:
        """Return T5's and CLIP's vectors from the outputs of the encoders."""
        pooled, embeds = encoded
        return embeds, pooled

    @cached_property
    def _scheduler(self) -> Any:
        return FlowMatchEulerDiscreteScheduler.from_pretrained(self.folder / "scheduler")

    def schedule(self, settings: Settings, steps: int, height: int, width: int) -> Schedule:
        """Return the share of noise before and after each step, as diffusers' Flux."""
        scheduler = self._scheduler
        known: Any = scheduler.config
        slope = (known.max_shift - known.base_shift) / (
            known.max_image_seq_len - known.base_image_seq_len
        )
        patches = self.geometry.patches(height, width)
        shift = slope * (patches - known.base_image_seq_len) + known.base_shift
        given = settings.sigmas or np.linspace(1.0, 1 / steps, steps)
        scheduler.set_timesteps(sigmas=list(given), mu=shift)
        pairs = pairwise(scheduler.sigmas.numpy())
        return Schedule(tuple(Moment(now, now, then) for now, then in pairs))

    def numbers(self, moment: Moment, guidance: float) -> tuple[np.float32, ...]:
        """Return time, its change, and guidance."""
        return (
            np.float32(moment.now),
            np.float32(moment.then - moment.now),
            np.float32(guidance),
        )

    def noises(self, seed: int, height: int, width: int) -> Iterator[np.ndarray]:
        """Return the initial noise of an image; no step adds any."""
        yield noise(seed, self.geometry, height, width)

    def shapes(self, key: Key, sharding: Any = None) -> tuple[Any, ...]:
        """Return the shapes of a program's arguments."""

        def shape(*sides: int, dtype: Any = self.dtype) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(sides, dtype, sharding=sharding)

        weights = self.part(key).shapes(self.dtype, sharding)
        if key.stage == "t5" and self._text_bits == 8:
            weights = narrow.narrowed_shapes(weights)
        sizes = self.geometry
        if key.stage in ("clip", "t5"):
            tokens = CLIP_TOKENS if key.stage == "clip" else self.text_tokens
            return weights, shape(key.batch, tokens, dtype=jnp.int32)
        if key.stage == "encode":
            return weights, shape(key.batch, 3, key.height, key.width, dtype=jnp.float32)
        patches = sizes.patches(key.height, key.width)
        latents = shape(key.batch, patches, 4 * sizes.latent_channels, dtype=jnp.float32)
        if key.stage == "decode":
            return weights, latents
        change = lora.low_rank(weights)
        weights = {name: value for name, value in weights.items() if name not in change}
        numbers = (shape(dtype=jnp.float32),) * 3  # time, its change, guidance
        prompt = (
            shape(key.batch, self.text_tokens, sizes.width),
            shape(key.batch, sizes.pooled),
        )
        if self.has_context:
            count, width = self.context_sides(patches)
            latents = latents, shape(key.batch, count, width, dtype=jnp.float32)
        given = weights, latents, *prompt, *numbers, change
        if not key.reuses:
            return given
        kept = shape(key.batch, patches * (2 if self.edits == KONTEXT else 1), sizes.inner)
        return *given, (kept, kept), shape(dtype=jnp.float32)

    def _reusing(self, key: Key) -> Callable[..., Any]:
        """Return a step that also takes and returns the cached state, and whether it was used."""
        split = first_block.Split(self.folder, key.rank, self._generation)

        def reusing(weights: Weights, *given: Any) -> Any:
            *rest, low_rank, kept, threshold = given
            found: list[Any] = []

            def part(all_weights: Weights, *args: Any) -> Any:
                flow, *found[:] = split(all_weights, kept, threshold, *args)
                return flow

            latents = self._step(part, key)(weights, *rest, low_rank)
            return latents, *found

        return reusing

    def _step(self, part: Callable[..., Any], key: Key) -> Callable[..., Any]:
        """Return one step of Euler's method along the flow from noise to image."""
        places, words = places_of(self.geometry, key.height, key.width, self.text_tokens)
        count = len(places)
        if self.edits == KONTEXT:
            places = np.concatenate((places, places + np.array([1, 0, 0], np.float32)))

        def step(
            weights: Weights,
            latents: Any,
            embeds: Any,
            pooled: Any,
            at: Any,
            change: Any,
            guidance: Any,
            low_rank: Weights,
        ) -> Any:
            given = latents
            if self.has_context:
                latents, context = latents
                given = jnp.concatenate((latents, context), axis=-1 if self.edits == FILL else 1)
            batch = latents.shape[0]
            strength = (
                jnp.full((batch,), guidance, self.dtype) if self.geometry.has_guidance else None
            )
            flow = part(
                {**weights, **low_rank},
                given.astype(self.dtype),
                embeds,
                pooled,
                jnp.full((batch,), at, self.dtype),
                (jnp.asarray(places), jnp.asarray(words), strength),
            )
            return latents + change * flow[:, :count].astype(jnp.float32)

        return step

    def _encode(self, part: modules.Part) -> Callable[..., Any]:
        def encode(weights: Weights, pixels: Any) -> Any:
            found = part(weights, pixels.astype(self.dtype))
            return tuple(packed(each.astype(jnp.float32)) for each in found)

        return encode

    def _decode(self, part: modules.Part, key: Key) -> Callable[..., Any]:
        sizes = self.geometry
        rows, columns = key.height // sizes.step, key.width // sizes.step

        def decode(weights: Weights, latents: Any) -> Any:
            batch = latents.shape[0]
            unpacked = latents.reshape(batch, rows, columns, sizes.latent_channels, 2, 2)
            unpacked = unpacked.transpose(0, 3, 1, 4, 2, 5)
            unpacked = unpacked.reshape(batch, sizes.latent_channels, 2 * rows, 2 * columns)
            scaled = unpacked / sizes.scaling_factor + sizes.shift_factor
            pixels = part(weights, scaled.astype(self.dtype)).astype(jnp.float32)
            pixels = jnp.clip(pixels / 2 + 0.5, 0, 1).transpose(0, 2, 3, 1)
            return jnp.round(pixels * 255).astype(jnp.uint8)

        return decode


def places_of(
    sizes: Geometry, height: int, width: int, text_tokens: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the position of each patch of an image, and of each token of its prompt."""
    rows, columns = height // sizes.step, width // sizes.step
    places = np.zeros((rows, columns, 3), np.float32)
    places[..., 1] = np.arange(rows)[:, None]
    places[..., 2] = np.arange(columns)[None, :]
    return places.reshape(rows * columns, 3), np.zeros((text_tokens, 3), np.float32)


def packed(latents: Any) -> Any:
    """Return latents as vectors of two by two, the input format of the denoiser."""
    batch, channels, rows, columns = latents.shape
    parts = latents.reshape(batch, channels, rows // 2, 2, columns // 2, 2)
    turned = parts.transpose(0, 2, 4, 1, 3, 5)
    return turned.reshape(batch, (rows // 2) * (columns // 2), channels * 4)


def noise(seed: int, sizes: Geometry, height: int, width: int) -> np.ndarray:
    """Return the initial noise of an image, the same as diffusers' noise for the seed."""
    import torch  # noqa: PLC0415 - its generator is what pictures of a seed are known by

    generator = torch.Generator().manual_seed(seed)
    rows, columns = 2 * (height // sizes.step), 2 * (width // sizes.step)
    drawn = torch.randn((1, sizes.latent_channels, rows, columns), generator=generator)
    packed = drawn.view(1, sizes.latent_channels, rows // 2, 2, columns // 2, 2)
    packed = packed.permute(0, 2, 4, 1, 3, 5)
    return packed.reshape((rows // 2) * (columns // 2), sizes.latent_channels * 4).numpy()
