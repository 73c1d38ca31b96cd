"""A pipeline on this process's device, which generates images from prompts."""

import io
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image
from transformers import AutoTokenizer

from ..config import Settings
from ..work import Batch, Pipeline, Show, Stopwatch
from .compiled import Compiled
from .editing import Source, source_of
from .family import programs_of
from .formats import data_type
from .keys import Key
from .modules import Weights
from .programs import Programs
from .slots import Adapters


def load(settings: Settings, say: Callable[[str], None]) -> Pipeline:
    """Return the pipeline that the settings name, loaded and compiled."""
    return PipelineOnXla(settings, say)


class PipelineOnXla:
    """The weights on the device, and the programs that use them.

    Args:
        settings: Settings of the server.
        say: Called with progress messages, because loading takes minutes.
    """

    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        folder = Path(settings.folder)
        self._settings = settings
        self._programs = programs_of(settings, data_type())
        self._compiled = Compiled(self._programs, settings.programs_folder, settings.cache_folder)
        say("reading weights")
        self._encoders = self._programs.encoders
        stages = [*(each.stage for each in self._encoders), "step", "decode"]
        if settings.family.edits:
            stages.append("encode")
        self._weights = {stage: self._programs.load(stage) for stage in stages}
        self._adapters = Adapters(settings, self._programs)
        self._words = [
            AutoTokenizer.from_pretrained(folder / each.tokenizer) for each in self._encoders
        ]

    def warm(self, say: Callable[[str], None]) -> None:
        """Compile or load every program that a request may need."""
        for batch in self._settings.batches:
            for each in self._encoders:
                self._get(Key(each.stage, batch), say)
            for width, height in self._settings.sizes:
                for rank in (0, *self._adapters.ranks(say)):
                    self._get(self._step(batch, height, width, rank), say)
                self._get(Key("decode", batch, height, width), say)
        if self._settings.family.edits:
            for width, height in self._settings.sizes:
                self._get(Key("encode", 1, height, width), say)

    def facts(self) -> dict[str, Any]:
        """Return the sources of the programs, for the log."""
        return {
            "device": jax.devices()[0].device_kind,
            "programs": self._compiled.counts(),
            "weights_gib": round(sum(map(_bytes, self._weights.values())) / 2**30, 3),
        }

    def generate(
        self, batch: Batch, is_cancelled: Callable[[], bool], clock: Stopwatch, show: Show
    ) -> list[bytes] | None:
        """Return an image for each seed of a batch, or None if the batch was canceled."""
        with ThreadPoolExecutor(1) as aside:  # a PNG takes as long as a step, and needs no chip
            written: list[Future[None]] = []

            def preview(index: int, guess: jax.Array) -> None:
                with clock("preview"):
                    pixels = self._decoded(batch, guess)
                written.append(aside.submit(lambda: show(index, _files(pixels, batch))))

            latents = self._denoised(batch, is_cancelled, clock, preview)
            if latents is None:
                return None
            with clock("vae_decode"):
                pixels = self._decoded(batch, latents)
            for each in written:
                each.result()
        with clock("image_encode"):
            return _files(pixels, batch)

    def _denoised(
        self,
        batch: Batch,
        is_cancelled: Callable[[], bool],
        clock: Stopwatch,
        preview: Callable[[int, jax.Array], None],
    ) -> jax.Array | None:
        """Return the latents of a batch, or None if the batch was canceled.

        `preview` is called with the index of each preview and the latents that it shows.
        """
        size = self._settings.padded(len(batch.seeds))
        rank, change = self._adapters.get(batch.adapters)
        with clock("text_encode"):
            embeds, pooled = self._encode(batch.prompts, size)
        schedule = self._programs.schedule(self._settings, batch.steps, batch.height, batch.width)
        moments = schedule.moments[batch.first_step :]
        noises = [self._programs.noises(seed, batch.height, batch.width) for seed in batch.seeds]

        def drawn() -> np.ndarray:
            return np.stack(_padded([next(each) for each in noises], size))

        source = self._source(batch, size, clock)
        if source is None:
            latents = jnp.asarray(drawn() * np.float32(schedule.start))
        else:
            latents = source.begin(moments[0])
        context = None if source is None else source.context
        key = self._step(size, batch.height, batch.width, rank)
        carried: tuple[Any, ...] = ()
        previews = batch.preview_steps
        if key.reuses:
            inner = self._programs.geometry.inner
            patches = self._programs.shapes(key)[-2][0].shape[1]
            zeros = jnp.zeros((latents.shape[0], patches, inner), data_type())
            carried = ((zeros, zeros), np.float32(self._settings.step_cache))
        for number, moment in enumerate(moments, 1):
            if is_cancelled():
                return None
            with clock("denoise_step") as lap:
                numbers = self._programs.numbers(moment, batch.guidance)
                out = self._get(key)(
                    self._weights["step"],
                    latents if context is None else (latents, context),
                    embeds,
                    pooled,
                    *numbers,
                    change,
                    *carried,
                )
                if key.reuses:
                    out, kept, is_reused = out
                    carried = (kept, carried[1])
                    lap.stage = "reused_step" if is_reused else "denoise_step"
                before, latents = latents, out.block_until_ready()
            if number in previews:
                guess = end_of_flow(before, latents, float(moment.now), float(moment.then))
                preview(previews.index(number), guess if source is None else source.keep(guess, 0))
            if source is not None:
                latents = source.keep(latents, moment.then)
            if moment.added:
                latents = latents + np.float32(moment.added) * drawn()
        return latents

    def _source(self, batch: Batch, size: int, clock: Stopwatch) -> Source | None:
        """Return the image to change, if there is one."""
        if batch.edit is None or not isinstance(self._programs, Programs):
            return None

        def encode(key: Key, pixels: np.ndarray) -> tuple[Any, Any]:
            return self._get(key)(self._weights["encode"], pixels)

        with clock("vae_encode"):
            source = source_of(batch, batch.edit, size, self._programs, encode)
            source.latents.block_until_ready()
        return source

    def forget(self, adapter: str) -> None:
        """Unload an adapter that was removed."""
        self._adapters.forget(adapter)

    def _decoded(self, batch: Batch, latents: jax.Array) -> np.ndarray:
        """Return the pixels of latents, including those that pad a batch."""
        decode = self._get(Key("decode", latents.shape[0], batch.height, batch.width))
        return np.asarray(decode(self._weights["decode"], latents))

    def _step(self, batch: int, height: int, width: int, rank: int) -> Key:
        return Key("step", batch, height, width, rank, self._settings.step_cache > 0)

    def _get(self, key: Key, say: Callable[[str], None] | None = None) -> Callable[..., Any]:
        return self._compiled.get(key, say)

    def _encode(self, prompts: Sequence[str], size: int) -> tuple[jax.Array, jax.Array]:
        """Return vectors per token and per prompt, for each place of a batch.

        A prompt is encoded once.
        """
        unique = list(dict.fromkeys(prompts))
        count = self._settings.padded(len(unique))
        texts = _padded(unique, count)
        options = {"padding": "max_length", "truncation": True}
        encoded: list[Any] = []
        for each, words in zip(self._encoders, self._words, strict=True):
            ids = np.asarray(words(texts, max_length=each.tokens, **options)["input_ids"], np.int32)
            encoded.append(self._get(Key(each.stage, count))(self._weights[each.stage], ids))
        embeds, pooled = self._programs.prompt(encoded)
        where = np.asarray(_padded([unique.index(prompt) for prompt in prompts], size))
        return embeds[where].block_until_ready(), pooled[where]


def end_of_flow(before: jax.Array, after: jax.Array, now: float, then: float) -> jax.Array:
    """Return where a denoising step from noise level `now` to `then` leads in a straight line.

    A step moves the latents along the predicted flow or noise, so this is the image that the model
    expects after the step: a preview, without another call of the denoiser.
    """
    return after - then * (after - before) / (then - now)


def _files(pixels: np.ndarray, batch: Batch) -> list[bytes]:
    return [encoded(each, batch.format) for each in pixels[: len(batch.seeds)]]


def encoded(pixels: np.ndarray, form: str) -> bytes:
    """Return an image as a file, `png` or `jpeg`."""
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, form)
    return out.getvalue()


def _padded(items: list[Any], size: int) -> list[Any]:
    return items + [items[-1]] * (size - len(items))


def _bytes(weights: Weights) -> int:
    return sum(value.nbytes for value in weights.values())
