"""The command line of the real vLLM on this machine, from the container's.

Flags that require an accelerator or the real weights are replaced, each with its reason. All other
flags reach the real server unchanged.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from twin.engines.vllm_flags import flag_table, normalise

CONTEXT = 131_072
"""Maximum context length of the tiny model, as long as in the replaced ones; it takes no memory."""

FORCED = {
    "--model": "the weights of the model are not available: a tiny Llama replaces them",
    "--tokenizer": "it would be the model's",
    "--load-format": "the tiny model is a folder, nothing is streamed",
    "--model-loader-extra-config": "it belongs to the load format",
    "--tensor-parallel-size": "this machine is one device",
    "--pipeline-parallel-size": "this machine is one device",
    "--data-parallel-size": "this machine is one device",
    "--dtype": "the kernels of bfloat16 for AMX end with an illegal instruction on some virtual "
    "machines; those of float32 run everywhere",
    "--quantization": "the tiny model is not quantized",
    "--kv-cache-dtype": "processors have no eight-bit KV cache",
    "--block-size": "the attention of processors has blocks of 128 only, or multiples of 32",
    "--gpu-memory-utilization": "there is no GPU memory; VLLM_CPU_KVCACHE_SPACE says how much",
    "--host": "a pod has an address of its own",
    "--kv-transfer-config": "its connectors move blocks between accelerators",
}
"""Flags that are replaced or omitted, with the reason."""

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_HOST_IP": "127.0.0.1",
    "DO_NOT_TRACK": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
}
"""Offline, on loopback, one GiB of KV cache, and one thread, because the twin shares the
machine."""


def split(argv: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return the flags and values of a command line in order, with aliases resolved.

    Args:
        argv: arguments after `vllm serve` or the module's name; a positional model comes first.
    """
    table = flag_table()["flags"]
    aliases = {alias: name for name, entry in table.items() for alias in entry.get("aliases", [])}
    out: list[tuple[str, list[str]]] = []
    for word in normalise(argv):
        if word.startswith("-") and not _is_number(word):
            flag, equals, value = word.partition("=")
            out.append((aliases.get(flag, flag), [value] if equals else []))
        elif out:
            out[-1][1].append(word)
        else:
            out.append(("--model", [word]))
    return out


def _is_number(word: str) -> bool:
    return word[1:].replace(".", "", 1).isdigit()


def adapt(
    argv: Sequence[str], *, model: Path, address: str, adapter: Callable[[str, str], Path]
) -> list[str]:
    """Return the arguments for this machine.

    Args:
        argv: arguments of the container.
        model: folder of the tiny model.
        address: address of the pod.
        adapter: returns the folder of an adapter, by its name and its path in the container.
    """
    kept = split(argv)
    given = dict(kept)
    out = [f"--model={model}", f"--host={address}", "--dtype=float32"]
    if "--served-model-name" not in given:
        out.append(f"--served-model-name={given.get('--model', ['model'])[0]}")
    for flag, values in kept:
        if flag in FORCED:
            continue
        if flag == "--lora-modules":
            out += [flag, *(_module(value, adapter) for value in values)]
        elif flag == "--max-model-len":
            out.append(f"{flag}={_length(values[0])}")
        elif len(values) == 1:
            out.append(f"{flag}={values[0]}")
        else:
            out += [flag, *values]
    return out


def served_names(argv: Sequence[str]) -> list[str]:
    """Return the served names of the base model in a container's arguments."""
    given = dict(split(argv))
    return given.get("--served-model-name") or given.get("--model", [])


def largest_rank(argv: Sequence[str]) -> int:
    """Return the maximum rank of adapters; vLLM's default is 16."""
    return int(dict(split(argv)).get("--max-lora-rank", ["16"])[0])


def _length(value: str) -> str:
    """Limit a context length to the tiny model's, because vLLM rejects a longer one."""
    return str(min(int(value), CONTEXT)) if value.isdigit() else value


def _module(value: str, adapter: Callable[[str, str], Path]) -> str:
    """Rewrite `name=path`; a JSON object keeps its other keys."""
    if value.startswith("{"):
        entry: dict[str, Any] = json.loads(value)
        return json.dumps({**entry, "path": str(adapter(entry["name"], entry["path"]))})
    name, _, path = value.partition("=")
    return f"{name}={adapter(name, path)}"
