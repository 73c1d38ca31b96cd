"""vLLM's checks of the files of an adapter that is loaded at run time.

Messages and status codes are those of the real server (0.32.0, docs/real-engine.md): 404 for a
missing folder, and 500 with the worker's message for every other failure in a worker.
"""

import json
from pathlib import Path
from typing import Any

from simulator.server.bodies.errors import ApiError

_WEIGHTS = "adapter_model.safetensors"


def check(name: str, path: str, folder: Path, largest_rank: int) -> None:
    """Read an adapter's configuration and the header of its weights.

    Args:
        name: name of the adapter.
        path: path of its folder in the request.
        folder: the same folder on this machine.
        largest_rank: `--max-lora-rank`.

    Raises:
        ApiError: vLLM would not load it.
    """
    file = folder / "adapter_config.json"
    if not file.exists():
        raise ApiError(404, f"Loading lora {name} failed: No adapter found for {path}")
    try:
        config: dict[str, Any] = json.loads(file.read_text())
        rank = int(config["r"])
    except (ValueError, KeyError, TypeError) as error:
        raise _failed(f"{type(error).__name__}: {error}") from error
    if rank > largest_rank:
        raise _failed(f"LoRA rank {rank} is greater than max_lora_rank {largest_rank}.")
    if not (folder / _WEIGHTS).exists():
        raise _failed(f"{path} doesn't contain tensors")
    problem = _header_problem((folder / _WEIGHTS).read_bytes())
    if problem:
        raise _failed(f"Error while deserializing header: {problem}")


def _header_problem(raw: bytes) -> str:
    """Return the error in a safetensors file; empty if it is valid."""
    size = int.from_bytes(raw[:8], "little")
    if len(raw) < 8 or size > len(raw) - 8:
        return "header too small" if len(raw) < 8 else "invalid header length"
    try:
        header: dict[str, Any] = json.loads(raw[8 : 8 + size])
    except ValueError:
        return "invalid JSON in header"
    ends = [entry["data_offsets"][1] for key, entry in header.items() if key != "__metadata__"]
    return "" if max(ends, default=0) == len(raw) - 8 - size else "incomplete metadata"


def _failed(message: str) -> ApiError:
    return ApiError(
        500,
        f"Call to add_lora method failed: Worker failed with error '{message}', please check the "
        "stack trace above for the root cause",
    )
