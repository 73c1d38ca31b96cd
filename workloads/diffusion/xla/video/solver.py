"""The numbers of UniPC's steps, from diffusers' own scheduler.

A step is a weighted sum of five videos: the latents, those before the last step as the corrector
left them, the model's last two expectations of the result, and its new one. Running the scheduler
on five unit vectors gives the weights, so no formula is repeated here.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import UniPCMultistepScheduler

ORDER = 2
_LATENTS, _LAST, _BEFORE, _EARLIER, _NEW = range(5)


@dataclass(frozen=True)
class Step:
    """One denoising step."""

    at: np.float32
    """Step of the training, which the denoiser gets."""
    sigma: np.float32
    """Share of noise in the latents."""
    weights: np.ndarray
    """Rows: the corrected latents, and the next latents. Columns: latents, the corrected latents of
    the step before, expectations of the last step and of the one before it, and the new one."""


def steps_of(folder: Path, count: int) -> list[Step]:
    """Return the denoising steps of a model's scheduler.

    Args:
        folder: Folder of `scheduler_config.json`.
        count: Number of steps.
    """
    scheduler: Any = UniPCMultistepScheduler.from_pretrained(folder)
    scheduler.set_timesteps(count)
    scheduler.set_begin_index(0)
    # the expectation is computed on the device, from the flow
    scheduler.convert_model_output = lambda output, *_, **__: output
    # shape [batch, channels]; float64, so that only the scheduler's own numbers are rounded
    units = torch.eye(5, dtype=torch.float64)[:, None]
    found: list[Step] = []
    for number, at in enumerate(scheduler.timesteps):
        scheduler.last_sample = units[_LAST] if number else None
        scheduler.model_outputs = [units[_EARLIER], units[_BEFORE]]
        following = scheduler.step(units[_NEW], at, units[_LATENTS], return_dict=False)[0]
        rows: Any = (scheduler.last_sample, following)
        weights = torch.cat(rows).numpy().astype(np.float32)
        found.append(Step(np.float32(at), np.float32(scheduler.sigmas[number]), weights))
    return found
