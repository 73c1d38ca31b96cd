"""A pipeline that generates placeholders in the time that an accelerator would take.

An image is a function of model, prompt, seed and adapters, so a seed always gives the same image;
the prompt is written on it. An edit shows such an image over the client's, as strongly as the
request says, and only where its mask has it. A video shows such an image. Times are those of
`planner.speed.image_speed`, on the clock of the twin.
"""

import base64
import hashlib
import io
import os
import time
from collections.abc import Callable
from typing import Any

from PIL import Image, ImageDraw

from gke_inference.sizing.architectures import find_model
from planner.speed.image_speed import StageSeconds, stage_seconds
from simulator.diffusion.mp4 import written
from workloads.diffusion.config import Settings
from workloads.diffusion.work import Batch, Edit, Show, Stopwatch

_PREFIX = "GKE_INFERENCE_SIM_"
_MARGIN, _LINE = 16, 40


def load(settings: Settings, say: Callable[[str], None]) -> "Simulated":
    """Return the pipeline without reading weights."""
    say("simulated: no weights are read")
    accelerator = os.environ.get(f"{_PREFIX}ACCELERATOR", "")
    return Simulated(settings, accelerator, float(os.environ.get(f"{_PREFIX}SPEED", "1")))


class Simulated:
    """One simulated chip.

    Args:
        settings: settings of the server.
        accelerator: accelerator label of the GKE node.
        speed: speed of the twin's clock relative to Google's.
    """

    def __init__(self, settings: Settings, accelerator: str, speed: float) -> None:
        self._settings = settings
        self._accelerator = accelerator
        self._speed = speed
        self._architecture = find_model(settings.folder, settings.model)

    def warm(self, say: Callable[[str], None]) -> None:
        """Compile nothing."""
        say("simulated: nothing is compiled")

    def facts(self) -> dict[str, Any]:
        """Return the simulated chip."""
        return {"device": f"simulated {self._accelerator or 'chip'}"}

    def forget(self, adapter: str) -> None:
        """Drop nothing: no adapter is kept."""

    def generate(
        self, batch: Batch, is_cancelled: Callable[[], bool], clock: Stopwatch, show: Show
    ) -> list[bytes] | None:
        """Return a placeholder for each seed."""
        takes = self._takes(batch)
        with clock("text_encode"):
            self._wait(takes.text_encode)
        previews = batch.preview_steps
        for number in range(1, batch.run_steps + 1):
            if is_cancelled():
                return None
            with clock("denoise_step"):
                self._wait(takes.denoise_step)
            if number in previews:
                with clock("preview"):
                    self._wait(takes.vae_decode)
                    show(previews.index(number), _files(batch, f"step {number}"))
        with clock("vae_decode"):
            self._wait(takes.vae_decode)
        with clock("video_encode" if batch.frames else "image_encode"):
            return [self._video(file, batch) for file in _files(batch)]

    def _takes(self, batch: Batch) -> StageSeconds:
        return stage_seconds(
            "tpu-v6e",
            pixels=batch.height * batch.width,
            frames=batch.frames or 1,
            images=len(batch.seeds),
            model=self._architecture,
        )

    def _video(self, file: bytes, batch: Batch) -> bytes:
        """Return a video of an image; the image itself if the batch is one of images."""
        if not batch.frames:
            return file
        return written([file] * batch.frames, batch.width, batch.height, self._settings.fps)

    def _wait(self, seconds: float) -> None:
        time.sleep(seconds / self._speed)


def _files(batch: Batch, note: str = "") -> list[bytes]:
    pairs = zip(batch.prompts, batch.seeds, strict=True)
    return [drawn(prompt, seed, batch, note) for prompt, seed in pairs]


def drawn(prompt: str, seed: int, batch: Batch, note: str = "") -> bytes:
    """Return a placeholder as a file, with its own colors, and the prompt.

    Args:
        prompt: Prompt of the image.
        seed: Seed of the image.
        batch: Batch of the image.
        note: Text for a preview, such as its step.
    """
    used = [(each.adapter.name, each.weight) for each in batch.adapters]
    told = f"{prompt}\n{seed}\n{batch.model}\n{used}".encode()
    digest = hashlib.sha256(told).digest()
    above, below = tuple(digest[:3]), tuple(digest[3:6])
    column = Image.linear_gradient("L").resize((batch.width, batch.height))
    picture = Image.composite(
        Image.new("RGB", column.size, below), Image.new("RGB", column.size, above), column
    )
    words = [prompt[at : at + _LINE] for at in range(0, min(len(prompt), 4 * _LINE), _LINE)]
    words += [f"seed {seed}", "simulated", note]
    ImageDraw.Draw(picture).multiline_text((_MARGIN, _MARGIN), "\n".join(words), fill="white")
    if batch.edit is not None:
        picture = _over(picture, batch.edit)
    out = io.BytesIO()
    picture.save(out, "jpeg" if batch.frames else batch.format)
    return out.getvalue()


def _over(picture: Image.Image, edit: Edit) -> Image.Image:
    """Return a placeholder over the client's image, whose pixels stay outside of the mask."""
    given = Image.frombytes("RGB", picture.size, base64.b64decode(edit.image))
    blended = Image.blend(given, picture, edit.strength)
    if not edit.mask:
        return blended
    return Image.composite(
        blended, given, Image.frombytes("L", picture.size, base64.b64decode(edit.mask))
    )
