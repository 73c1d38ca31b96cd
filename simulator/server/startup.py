"""Startup of an engine before it listens: initialization, weights, compilation."""

import asyncio
import hashlib
import json
import time
from pathlib import Path

from simulator.engine import device_memory
from simulator.engine.logs import LOG
from simulator.engine.settings import Deployment

_CACHE_VARIABLE = {"tpu": "VLLM_XLA_CACHE_PATH", "gpu": "VLLM_CACHE_ROOT"}


def compile_key(deployment: Deployment) -> str:
    """Return the cache key of a compiled program; a change requires compilation."""
    surroundings = deployment.surroundings
    parts = [
        deployment.model,
        surroundings.accelerator.name,
        deployment.devices,
        deployment.max_sequences,
        deployment.max_batched_tokens,
        deployment.max_model_len,
        deployment.block_size,
        deployment.kv_bits,
        deployment.flags.dtype,
        deployment.flags.quantization,
        bool(deployment.flags.enable_lora),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def cache_folder(deployment: Deployment, environment: dict[str, str]) -> Path | None:
    """Return the folder of the persistent compile cache, or None if none is mounted."""
    variable = _CACHE_VARIABLE.get(deployment.surroundings.accelerator.kind, "")
    path = environment.get(variable)
    return deployment.surroundings.host_path(path) if path else None


def stages(deployment: Deployment, *, compiled: bool) -> dict[str, float]:
    """Return the stages before the first request, in order, in seconds of real hardware.

    Args:
        deployment: deployment to start.
        compiled: whether the compiled program is in the cache.
    """
    rules = deployment.surroundings.durations
    if not rules:
        return {}
    kind = deployment.surroundings.accelerator.kind
    shape = deployment.shape
    streamed = str(deployment.flags.load_format or "").startswith("runai") or str(
        deployment.model
    ).startswith(("gs://", "s3://"))
    rate = rules["weights_streamed_gb_per_second" if streamed else "weights_gb_per_second"]
    compiler = "tpu" if kind == "tpu" else "gpu"
    compile_seconds = rules[f"compile_cached_{compiler}" if compiled else f"compile_{compiler}"]
    if deployment.flags.enforce_eager and kind != "tpu":
        compile_seconds = 0.0
    return {
        "initialise": rules["initialise"],
        "weights": shape.weights_gb / rate,
        "compile": compile_seconds,
    }


async def start_up(deployment: Deployment, environment: dict[str, str]) -> None:
    """Run the stages at the speed of the twin."""
    folder = cache_folder(deployment, environment)
    entry = folder / f"{compile_key(deployment)}.json" if folder else None
    compiled = entry is not None and entry.exists()
    begun = time.monotonic()
    chip, chips = deployment.surroundings.accelerator, deployment.surroundings.chips
    weights = device_memory.weights_bytes(deployment)
    device_memory.write(environment, chip, chips, 0)
    for stage, seconds in stages(deployment, compiled=compiled).items():
        await asyncio.sleep(seconds / deployment.surroundings.speed)
        if stage == "weights":
            device_memory.write(environment, chip, chips, weights)
        LOG.info(
            "%s done",
            stage,
            extra={"fields": {"stage": stage, "seconds": round(seconds, 1), "cached": compiled}},
        )
    if entry is not None and not compiled:
        variable = _CACHE_VARIABLE[deployment.surroundings.accelerator.kind]
        if deployment.surroundings.is_writable(environment[variable]):
            _keep(entry, deployment)
        else:
            LOG.warning("%s is on a read-only volume: the next start compiles again", variable)
    cache = device_memory.kv_cache_bytes(deployment)
    reserved = device_memory.reserved_bytes(deployment)
    device_memory.write(environment, chip, chips, weights, cache, reserved)
    LOG.info(
        "ready",
        extra={"fields": {"stage": "ready", "took": round(time.monotonic() - begun, 3)}},
    )


def _keep(entry: Path, deployment: Deployment) -> None:
    entry.parent.mkdir(parents=True, exist_ok=True)
    entry.write_text(json.dumps({"model": deployment.model, "devices": deployment.devices}))
