"""A Flux pipeline on this process's device: from prompts to pictures."""

import io
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from diffusers import FlowMatchEulerDiscreteScheduler
from PIL import Image
from transformers import AutoTokenizer

from ..config import Settings
from ..work import Batch, Pipeline, Stopwatch
from . import lora
from .compiled import Compiled
from .modules import Weights
from .programs import CLIP_TOKENS, Key, Programs, noise


def load(settings: Settings, say: Callable[[str], None]) -> Pipeline:
    """Return the pipeline that the settings name, loaded and compiled."""
    return FluxOnXla(settings, say)


def data_type() -> Any:
    """Return the number format of this process's device: bfloat16, on processors float32."""
    return jnp.float32 if jax.default_backend() == "cpu" else jnp.bfloat16


class FluxOnXla:
    """The weights on the device, and the programs that use them.

    Args:
        settings: of the server.
        say: told what is going on: it takes minutes.
    """

    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        folder = Path(settings.folder)
        self._settings = settings
        self._programs = Programs(
            folder, data_type(), settings.text_tokens, text_bits=settings.text_encoder_bits
        )
        self._compiled = Compiled(self._programs, settings.programs_folder, settings.cache_folder)
        say("reading weights")
        self._weights: dict[str, Weights] = {
            stage: self._programs.load(stage) for stage in ("clip", "t5", "step", "decode")
        }
        self._adapters: dict[str, tuple[int, Weights]] = {}
        self._scheduler: Any = FlowMatchEulerDiscreteScheduler.from_pretrained(folder / "scheduler")
        self._words = AutoTokenizer.from_pretrained(folder / "tokenizer")
        self._long_words = AutoTokenizer.from_pretrained(folder / "tokenizer_2")

    def warm(self, say: Callable[[str], None]) -> None:
        """Compile, or read, every program that a request may need."""
        for batch in self._settings.batches:
            for stage in ("clip", "t5"):
                self._get(Key(stage, batch), say)
            for width, height in self._settings.sizes:
                for rank in (0, *self._ranks(say)):
                    self._get(Key("step", batch, height, width, rank), say)
                self._get(Key("decode", batch, height, width), say)

    def facts(self) -> dict[str, Any]:
        """Return how the programs came about, for the log."""
        return {
            "device": jax.devices()[0].device_kind,
            "programs": self._compiled.counts(),
            "weights_gib": round(sum(map(_bytes, self._weights.values())) / 2**30, 3),
        }

    def generate(
        self, batch: Batch, is_cancelled: Callable[[], bool], clock: Stopwatch
    ) -> list[bytes] | None:
        """Return a picture for each seed of a batch, or None where nobody wants them any more."""
        size = self._settings.padded(len(batch.seeds))
        rank, change = self._adapter(batch.adapter)
        with clock("text_encode"):
            embeds, pooled = self._encode(batch.prompts, size)
        sizes = self._programs.geometry
        first = [noise(seed, sizes, batch.height, batch.width) for seed in batch.seeds]
        latents = jnp.asarray(np.stack(_padded(first, size)))
        key = Key("step", size, batch.height, batch.width, rank)
        sigmas = self._sigmas(batch.steps, latents.shape[1])
        for now, then in pairwise(sigmas):
            if is_cancelled():
                return None
            with clock("denoise_step"):
                numbers = (np.float32(now), np.float32(then - now), np.float32(batch.guidance))
                latents = self._get(key)(
                    self._weights["step"], latents, embeds, pooled, *numbers, change
                )
                latents.block_until_ready()
        with clock("vae_decode"):
            decode = self._get(Key("decode", size, batch.height, batch.width))
            pixels = np.asarray(decode(self._weights["decode"], latents))
        with clock("image_encode"):
            return [encoded(each, batch.format) for each in pixels[: len(batch.seeds)]]

    def _get(self, key: Key, say: Callable[[str], None] | None = None) -> Callable[..., Any]:
        return self._compiled.get(key, say)

    def _encode(self, prompts: Sequence[str], size: int) -> tuple[jax.Array, jax.Array]:
        """Return T5's and CLIP's vectors for each place of a batch; a prompt is encoded once."""
        unique = list(dict.fromkeys(prompts))
        count = self._settings.padded(len(unique))
        texts = _padded(unique, count)
        ids = [
            np.asarray(
                words(texts, max_length=length, padding="max_length", truncation=True)["input_ids"],
                np.int32,
            )
            for words, length in (
                (self._words, CLIP_TOKENS),
                (self._long_words, self._settings.text_tokens),
            )
        ]
        pooled = self._get(Key("clip", count))(self._weights["clip"], ids[0])
        embeds = self._get(Key("t5", count))(self._weights["t5"], ids[1])
        where = np.asarray(_padded([unique.index(prompt) for prompt in prompts], size))
        return embeds[where].block_until_ready(), pooled[where]

    def _ranks(self, say: Callable[[str], None]) -> list[int]:
        """Return the ranks of the adapters; one that cannot be read is told, and refused later."""
        found: set[int] = set()
        for name, folder in self._settings.adapters.items():
            try:
                found.add(lora.rank_of(Path(folder)))
            except (ValueError, OSError) as error:
                say(f"adapter {name}: {error}")
        return sorted(found)

    def _sigmas(self, steps: int, patches: int) -> np.ndarray:
        """Return the share of noise before each step and after the last, as diffusers' Flux."""
        scheduler = self._scheduler
        known: Any = scheduler.config
        slope = (known.max_shift - known.base_shift) / (
            known.max_image_seq_len - known.base_image_seq_len
        )
        shift = slope * (patches - known.base_image_seq_len) + known.base_shift
        scheduler.set_timesteps(sigmas=list(np.linspace(1.0, 1 / steps, steps)), mu=shift)
        return scheduler.sigmas.numpy()

    def _adapter(self, name: str | None) -> tuple[int, Weights]:
        """Return rank and weights of an adapter, from its folder when it is asked for first."""
        if name is None:
            return 0, {}
        if name not in self._adapters:
            folder = Path(self._settings.adapters[name])
            try:
                rank = lora.rank_of(folder)
            except OSError as error:
                raise ValueError(f"adapter {name} cannot be read: {error}") from error
            wanted = self._programs.shapes(Key("step", 1, *self._settings.smallest, rank))[-1]
            while len(self._adapters) >= self._settings.adapter_slots:
                del self._adapters[next(iter(self._adapters))]
            self._adapters[name] = (
                rank,
                {
                    key: jnp.asarray(value, data_type())
                    for key, value in lora.read_adapter(folder, wanted, rank).items()
                },
            )
        self._adapters[name] = self._adapters.pop(name)  # the one that was used last goes last
        return self._adapters[name]


def encoded(pixels: np.ndarray, form: str) -> bytes:
    """Return a picture as a file, `png` or `jpeg`."""
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, form)
    return out.getvalue()


def _padded(items: list[Any], size: int) -> list[Any]:
    return items + [items[-1]] * (size - len(items))


def _bytes(weights: Weights) -> int:
    return sum(value.nbytes for value in weights.values())
