"""A training run without arithmetic: the checks, the time and the files of the real one.

`python -m simulator.diffusion.trainer FILE` ends with status 143 after SIGTERM, and the next run
continues at the step that was reached. The adapter has one layer, of zeros.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from planner.speed.image_speed import stage_seconds
from workloads.diffusion.training import Training, read

_WEIGHTS = "pytorch_lora_weights.safetensors"
_LAYER = "transformer.transformer_blocks.0.attn.to_q"
_STOPPED = 143
_PASSES = 3
"""A backward pass takes twice the time of a forward pass."""
_WIDTH = 3072
_SLICE_SECONDS = 0.5


def step_seconds(settings: Training) -> float:
    """Return the duration of a step on a v6e chip."""
    height, width = settings.sides
    takes = stage_seconds("tpu-v6e", pixels=height * width, images=settings.batch)
    return _PASSES * takes.denoise_step


def adapter_bytes(settings: Training) -> bytes:
    """Return the file of an adapter in the layout of safetensors."""
    sizes = {"lora_A": [settings.rank, _WIDTH], "lora_B": [_WIDTH, settings.rank]}
    length = 4 * settings.rank * _WIDTH
    header = {
        f"{_LAYER}.{name}.weight": {
            "data_offsets": [at * length, (at + 1) * length],
            "dtype": "F32",
            "shape": shape,
        }
        for at, (name, shape) in enumerate(sizes.items())
    }
    text = json.dumps({**header, "__metadata__": {"digest": settings.digest()}}).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + bytes(2 * length)


def main(file: Path, speed: float) -> int:
    """Train and return the exit status: 2 for settings that cannot be used."""
    try:
        settings = read(file)
        digest = settings.digest()
        if not Path(settings.folder).is_dir():
            raise ValueError(f"folder: must exist, got {settings.folder}")
    except (OSError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    stopped: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        del frame
        stopped.append(number)

    signal.signal(signal.SIGTERM, stop)
    work = Path(settings.work)
    work.mkdir(parents=True, exist_ok=True)
    at = _reached(work, digest)
    takes = step_seconds(settings) / speed
    while at < settings.steps:
        count = min(settings.steps - at, max(1, round(_SLICE_SECONDS / takes)))
        time.sleep(count * takes)
        at += count
        told = {"digest": digest, "step": at, "steps": settings.steps}
        _write(work / "progress.json", json.dumps(told).encode())
        if stopped and at < settings.steps:
            return _STOPPED
    folder = Path(settings.adapter)
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / _WEIGHTS, adapter_bytes(settings))
    sys.stdout.write("simulated: no weights are read\n")
    return 0


def _reached(work: Path, digest: str) -> int:
    try:
        found = json.loads((work / "progress.json").read_text())
    except (FileNotFoundError, ValueError):
        return 0
    return int(found["step"]) if found["digest"] == digest else 0


def _write(file: Path, content: bytes) -> None:
    partial = file.with_name(f".{file.name}.partial")
    partial.write_bytes(content)
    partial.replace(file)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), float(os.environ.get("GKE_INFERENCE_SIM_SPEED", "1"))))
