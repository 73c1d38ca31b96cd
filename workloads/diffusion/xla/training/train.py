"""A training run, which can be interrupted at any time and resumed by the next process.

The work folder has `checkpoint.npz`, which belongs to the settings, weights and images of its
digest, `progress.json`, and the version of the weights (versions.py). The adapter's file also has
the digest and the version. It appears under its name only when it is complete.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from ...families import FLUX, family_of
from ...training import Training
from ..formats import data_type
from ..modules import Weights
from ..programs import Programs
from . import examples, fit, versions

WEIGHTS = "pytorch_lora_weights.safetensors"
"""File of an adapter, with diffusers' name."""
STOPPED = 143
"""Exit status after SIGTERM: the run is not finished, and its checkpoint is written."""
Say = Callable[..., None]


def train(settings: Training, say: Say) -> int:
    """Train or resume, and return the exit status.

    Args:
        settings: Settings of the run.
        say: Called with text for people and fields for programs.

    Raises:
        ValueError: An image cannot be read, or the model's folder is invalid.
    """
    jax.config.update("jax_platforms", settings.platform)
    stop = _Stop()
    work = Path(settings.work)
    work.mkdir(parents=True, exist_ok=True)
    settings, version = versions.fixed(settings)
    family = family_of(settings.folder).name
    if family != FLUX:
        raise ValueError(f"folder: must have a model of {FLUX}, got one of {family}")
    digest = settings.digest()  # of the version's folder
    if _run_of(Path(settings.adapter)) == digest:
        (work / _CHECKPOINT).unlink(missing_ok=True)
        say("the adapter is there already")
        return 0
    begun = time.monotonic()
    programs = Programs(
        Path(settings.folder),
        data_type(),
        settings.text_tokens,
        text_bits=settings.text_encoder_bits,
    )
    latents = jnp.asarray(examples.latents_of(settings, programs))
    prompt = examples.prompt_of(settings, programs)
    say("images are encoded", images=len(latents), seconds=round(time.monotonic() - begun, 3))
    denoiser = fit.Denoiser(programs.folder, settings.rank)
    adapter = fit.fresh(denoiser, settings)
    state: fit.State = adapter, fit.optimizer(settings).init(adapter)
    at, state = _resumed(work, digest, state)
    if at:
        say("a checkpoint is there", step=at)
    step = fit.step_of(denoiser, settings, programs.geometry, programs.dtype)
    weights = denoiser.whole.load(programs.dtype)
    begun, losses = time.monotonic(), list[jax.Array]()
    while at < settings.steps:
        state, loss = step(state, weights, latents, *prompt, at)
        stop.waits = True
        losses.append(loss)
        at += 1
        is_last = at == settings.steps
        if is_last or stop.asked or at % settings.checkpoint_steps == 0:
            _keep(work, digest, at, state)
            mean = round(float(np.mean(jax.device_get(losses))), 6)
            losses.clear()
            told = {"step": at, "steps": settings.steps, "loss": mean, "version": version}
            _write(work / "progress.json", json.dumps(told).encode())
            say("trained", **told, seconds=round(time.monotonic() - begun, 3))
        if stop.asked and not is_last:
            return STOPPED
    write_adapter(Path(settings.adapter), state[0], digest, version)
    (work / _CHECKPOINT).unlink(missing_ok=True)
    say("the adapter is written", folder=settings.adapter)
    return 0


class _Stop:
    """SIGTERM ends the process immediately until the first step is done, then after the step."""

    def __init__(self) -> None:
        self.asked = False
        self.waits = False
        """Whether a step is done, so that there is something to save."""
        signal.signal(signal.SIGTERM, self._hear)

    def _hear(self, *_: Any) -> None:
        self.asked = True
        if not self.waits:
            sys.exit(STOPPED)


def write_adapter(folder: Path, adapter: Weights, digest: str, version: str | None) -> None:
    """Write an adapter in diffusers' layout, atomically."""
    halves = {"lora_down": "lora_A", "lora_up": "lora_B"}
    state: dict[str, np.ndarray] = {}
    for name, value in adapter.items():
        layer, _, half = name.rpartition(".")
        state[f"transformer.{layer}.{halves[half]}.weight"] = np.asarray(value, np.float32)
    folder.mkdir(parents=True, exist_ok=True)
    run = json.dumps({"digest": digest, "version": version}, sort_keys=True)
    _write(folder / WEIGHTS, save(state, {_RUN: run}))


def _run_of(folder: Path) -> str | None:
    """Return the digest of the run that wrote an adapter; None if no run did."""
    try:
        with safe_open(folder / WEIGHTS, "np") as file:
            return json.loads((file.metadata() or {})[_RUN])["digest"]
    except (OSError, SafetensorError, KeyError, TypeError, ValueError):
        return None


_CHECKPOINT = "checkpoint.npz"
_RUN = "gke_inference_run"
"""Key of digest and version in the metadata of an adapter's file. There is only one key, because
safetensors writes several in a random order, and equal runs must write equal bytes."""


def _keep(work: Path, digest: str, at: int, state: fit.State) -> None:
    leaves: dict[str, Any] = {
        str(number): np.asarray(leaf) for number, leaf in enumerate(jax.tree.leaves(state))
    }
    partial = work / f".{_CHECKPOINT}"
    with partial.open("wb") as file:
        np.savez(file, digest=np.array(digest), at=np.array(at), **leaves)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(work / _CHECKPOINT)


def _resumed(work: Path, digest: str, state: fit.State) -> tuple[int, fit.State]:
    """Return steps and state of the checkpoint, or the given ones if it is of another run."""
    file = work / _CHECKPOINT
    if not file.exists():
        return 0, state
    with np.load(file) as kept:
        if str(kept["digest"]) != digest:
            return 0, state
        shape: Any = jax.tree.structure(state)
        leaves = [jnp.asarray(kept[str(number)]) for number in range(shape.num_leaves)]
        return int(kept["at"]), jax.tree.unflatten(shape, leaves)


def _write(file: Path, content: bytes) -> None:
    partial = file.with_name(f".{file.name}.partial")
    with partial.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(file)
