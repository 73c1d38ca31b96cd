"""A pipeline on this process's device, which generates videos from prompts."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from diffusers.pipelines.wan.pipeline_wan import prompt_clean
from transformers import AutoTokenizer

from ...config import Settings
from ...work import Batch, Pipeline, Show, Stopwatch
from ..compiled import Compiled
from ..formats import data_type
from ..keys import Key
from ..slots import Adapters
from .mp4 import Mp4
from .programs import FIRST, FURTHER, UMT5, WanPrograms, keys
from .solver import steps_of


def load(settings: Settings, say: Callable[[str], None]) -> Pipeline:
    """Return the pipeline of the settings' folder, loaded."""
    return VideoPipeline(settings, say)


class VideoPipeline:
    """The weights on the device, and the programs that use them.

    Args:
        settings: Settings of the server.
        say: Called with progress messages, because loading takes minutes.
    """

    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        folder = Path(settings.folder)
        self._settings = settings
        self._schedule = folder / "scheduler"
        self._programs = WanPrograms(settings, data_type())
        self._compiled = Compiled(self._programs, settings.programs_folder, settings.cache_folder)
        say("reading weights")
        self._weights = {stage: self._programs.load(stage) for stage in (UMT5, "step", FURTHER)}
        self._weights[FIRST] = self._weights[FURTHER]
        self._adapters = Adapters(settings, self._programs)
        self._words = AutoTokenizer.from_pretrained(folder / "tokenizer")

    def warm(self, say: Callable[[str], None]) -> None:
        """Compile or load every program that a request may need."""
        for key in keys(self._settings, self._adapters.ranks(say)):
            self._compiled.get(key, say)

    def facts(self) -> dict[str, Any]:
        """Return the sources of the programs, for the log."""
        loaded = (self._weights[stage] for stage in (UMT5, "step", FURTHER))
        held = sum(value.nbytes for weights in loaded for value in weights.values())
        return {
            "device": jax.devices()[0].device_kind,
            "programs": self._compiled.counts(),
            "weights_gib": round(held / 2**30, 3),
        }

    def forget(self, adapter: str) -> None:
        """Unload an adapter that was removed."""
        self._adapters.forget(adapter)

    def generate(
        self, batch: Batch, is_cancelled: Callable[[], bool], clock: Stopwatch, show: Show
    ) -> list[bytes] | None:
        """Return the file of one video, or None if it was canceled.

        Raises:
            ValueError: The batch has several videos.
        """
        if len(batch.seeds) != 1:
            raise ValueError(f"a chip generates one video at a time, got {len(batch.seeds)}")
        latents = self._denoised(batch, is_cancelled, clock)
        if latents is None:
            return None
        with Mp4(batch.width, batch.height, self._settings.fps) as file:
            for frames in self._decoded(batch, latents, clock):
                if is_cancelled():
                    return None
                file.add(frames)
            with clock("video_encode"):
                return [file.finish()]

    def _denoised(
        self, batch: Batch, is_cancelled: Callable[[], bool], clock: Stopwatch
    ) -> jax.Array | None:
        texts = [batch.prompts[0]]
        if self._settings.is_guided:
            texts.append(batch.negative)
        rank, change = self._adapters.get(batch.adapters)
        with clock("text_encode"):
            embeds = jnp.concatenate([self._encoded(text) for text in texts]).block_until_ready()
        size = batch.frames, batch.height, batch.width
        latents = jnp.asarray(self._programs.noise(batch.seeds[0], *size))
        zeros = jnp.zeros_like(latents)
        state = (latents, zeros, zeros, zeros)
        step = self._compiled.get(
            Key("step", 1, batch.height, batch.width, rank, frames=batch.frames)
        )
        guidance = np.float32(max(batch.guidance, 1.0))  # less is none, as in diffusers
        for each in steps_of(self._schedule, batch.steps):
            if is_cancelled():
                return None
            with clock("denoise_step"):
                numbers = each.at, each.sigma, each.weights, guidance
                state = step(self._weights["step"], state, embeds, *numbers, change)
                state[0].block_until_ready()
        return state[0]

    def _encoded(self, text: str) -> jax.Array:
        """Return the vectors of a prompt, [1, tokens, width]."""
        options = {"padding": "max_length", "truncation": True, "return_attention_mask": True}
        tokens = self._settings.text_tokens
        words = self._words([prompt_clean(text)], max_length=tokens, **options)
        given = (np.asarray(words[name], np.int32) for name in ("input_ids", "attention_mask"))
        return self._compiled.get(Key(UMT5, 1))(self._weights[UMT5], *given)

    def _decoded(self, batch: Batch, latents: jax.Array, clock: Stopwatch) -> Iterator[np.ndarray]:
        """Yield the frames of each latent frame."""
        remembered: tuple[Any, ...] = ()
        for number in range(latents.shape[2]):
            stage = FURTHER if number else FIRST
            decode = self._compiled.get(Key(stage, 1, batch.height, batch.width))
            with clock("vae_decode"):
                given = (latents[:, :, number : number + 1], *remembered)
                frames, kept = decode(self._weights[stage], *given)
                found = np.asarray(frames)
            remembered = (kept,)
            yield found
