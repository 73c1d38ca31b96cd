"""Memory of the accelerators that an engine occupies, for whoever measures it on the node.

An engine's own metrics do not have it: GKE measures it outside the container
(docs.cloud.google.com/monitoring/api/metrics_kubernetes, `container/accelerator/memory_used`).
vLLM takes the whole KV cache at its start, so the value changes only while it starts.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from gke_inference.sizing.memory import RUNTIME_MEMORY_GB, kv_token_bytes
from planner.fit.chips import Accelerator
from simulator.engine.settings import (
    PREFIX,
    Deployment,
    device_bytes,
    reserve_bytes,
    weights_gb,
)

MEMORY_FILE = PREFIX + "MEMORY_FILE"
"""Variable with the path of the file; without it, nothing is written."""
_MAKE = {"gpu": "nvidia", "tpu": "cloud-tpu"}


def weights_bytes(deployment: Deployment) -> float:
    """Return the bytes of the weights on each chip."""
    return weights_gb(deployment.shape, deployment.experts) * 1e9 / deployment.chips


def kv_cache_bytes(deployment: Deployment) -> float:
    """Return the bytes of the KV cache on each chip."""
    per_token = kv_token_bytes(deployment.shape, deployment.kv_bits)
    tokens = deployment.kv_blocks * deployment.block_size
    return tokens * per_token / deployment.chips


def reserved_bytes(deployment: Deployment) -> float:
    """Return the bytes for runtime, graphs and activations on each chip."""
    chip = deployment.surroundings.accelerator
    tokens = deployment.max_batched_tokens
    return reserve_bytes(chip, deployment.shape, tokens) * chip.devices_per_chip


def write(
    environment: Mapping[str, str],
    chip: Accelerator,
    chips: int,
    weights: float,
    cache: float = 0,
    reserved: float | None = None,
) -> None:
    """Write what each chip holds. Does nothing on processors.

    Args:
        environment: Variables of the engine.
        chip: Its accelerator.
        chips: Number of its chips on this host.
        weights: Bytes of the weights on each chip; 0 before they are loaded.
        cache: Bytes of the KV cache on each chip.
        reserved: Bytes for runtime, graphs and activations on each chip; None: only the runtime.
    """
    path = environment.get(MEMORY_FILE)
    if path is None or chip.kind not in _MAKE:
        return
    runtime = RUNTIME_MEMORY_GB[chip.kind] * 1e9 if weights else 0
    beside = runtime if reserved is None else reserved
    content = {
        "make": _MAKE[chip.kind],
        "model": chip.name,
        "chips": chips,
        "total": round(device_bytes(chip) * chip.devices_per_chip),
        "used": round(weights + cache + beside),
    }
    new = Path(f"{path}.new")
    new.write_text(json.dumps(content))
    os.replace(new, path)
