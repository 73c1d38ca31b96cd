"""SGLang's command line, and the settings of a server.

Read from the wheel of 0.5.21: `srt/arg_groups`, `srt/server_args.py`.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from simulator.dialects.flags import CommandLine
from simulator.engine.kv_tiers import NO_LMCACHE
from simulator.engine.settings import Deployment, EngineError, deploy
from twin.engines import vllm_flags

_LINE = CommandLine("sglang", "launch_server.py")
_PORT = 30000
_SIMULATED_PAGE = 16
"""Tokens per page if the flag is 1, SGLang's default; a finer cache only costs time."""
_RUNNING = 2048
_ADAPTERS = 8
_LONGER = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"
_KV_CACHE = {"bf16": "bfloat16"}


@dataclass(frozen=True)
class Settings:
    """A server's command line and settings."""

    flags: argparse.Namespace
    deployment: Deployment
    page_size: int

    @property
    def port(self) -> int:
        """Address of the server."""
        return int(self.flags.port or _PORT)

    @property
    def longest_request(self) -> int:
        """Maximum tokens of prompt and response together: context or cache size, minus one."""
        deployment = self.deployment
        cached = deployment.kv_blocks * deployment.block_size
        return min(deployment.max_model_len, cached) - 1


def settle(argv: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Read the arguments of `python3 -m sglang.launch_server`.

    Raises:
        EngineError: SGLang would not start.
        SystemExit: status 2 with argparse's message.
    """
    flags = _LINE.parse(argv, model_path=True)
    if flags.enable_lmcache:
        raise EngineError(NO_LMCACHE)
    page_size = flags.page_size or 1
    context = _LINE.whole("context-length", flags.context_length, 0)
    given: list[str] = flags.lora_paths or []
    adapters = [_adapter(word) for word in given]
    chunk = flags.chunked_prefill_size if (flags.chunked_prefill_size or 0) > 0 else None
    running = flags.max_running_requests or _RUNNING
    _check(flags)
    words: dict[str, object] = {
        "served-model-name": flags.served_model_name or flags.model_path,
        "tensor-parallel-size": flags.tp_size or 1,
        "pipeline-parallel-size": flags.pp_size or 1,
        "max-model-len": -1,
        "gpu-memory-utilization": flags.mem_fraction_static or 0.88,
        "block-size": page_size if page_size > 1 else _SIMULATED_PAGE,
        "max-num-seqs": min(running, chunk or running),  # which vLLM has at most as many
        "max-num-batched-tokens": chunk,
        "quantization": flags.quantization,
        "kv-cache-dtype": _KV_CACHE.get(flags.kv_cache_dtype or "", flags.kv_cache_dtype),
        "max-loras": flags.max_loras_per_batch
        or (_ADAPTERS if adapters or flags.enable_lora else None),
        "max-lora-rank": flags.max_lora_rank,
        "chat-template": flags.chat_template,
        "runner": "pooling" if flags.is_embedding else None,
    }
    made = [f"--{name}={value}" for name, value in words.items() if value is not None]
    if adapters or flags.enable_lora:
        made.append("--enable-lora")
    if flags.disable_radix_cache:
        made.append("--no-enable-prefix-caching")
    if adapters:
        made += ["--lora-modules", *(f"{name}={path}" for name, path in adapters)]
    namespace = vllm_flags.parse([f"--model={flags.model_path}", *made])
    try:
        deployment = deploy(namespace, environment)
    except EngineError as error:
        raise _in_own_words(error) from error
    longest = context or deployment.shape.context
    trained = deployment.shape.context
    if longest > trained and environment.get(_LONGER, "").lower() not in ("1", "true"):
        raise EngineError(
            f"ValueError: Warning: User-specified context_length ({longest}) is greater than the "
            f"derived context_length ({trained}). This may lead to incorrect model outputs or CUDA "
            "errors. Note that the derived context_length may differ from max_position_embeddings "
            "in the model's config. To allow overriding this maximum, set the env var "
            f"{_LONGER}=1"
        )
    return Settings(flags, replace(deployment, max_model_len=longest), page_size)


def _check(flags: argparse.Namespace) -> None:
    """Check what SGLang checks before it loads a model, in its words.

    Raises:
        EngineError: SGLang would not start.
    """
    name = str(flags.served_model_name or flags.model_path)
    if ":" in name:
        raise EngineError(
            "AssertionError: served_model_name cannot contain a colon (':') character. The colon "
            "is reserved for the 'model:adapter' syntax used in LoRA adapter specification. "
            f"Invalid value: '{name}'"
        )
    has_modules = flags.max_lora_rank and flags.lora_target_modules
    if flags.enable_lora and not flags.lora_paths and not has_modules:
        raise EngineError(
            "AssertionError: When no initial --lora-paths is provided, you need to specify both "
            "--max-lora-rank and --lora-target-modules for LoRA initialization."
        )
    chunk, page = flags.chunked_prefill_size or 0, flags.page_size or 1
    if chunk > 0 and chunk % page:
        raise EngineError("AssertionError: chunked_prefill_size must be divisible by page_size")


def _adapter(given: str) -> tuple[str, str]:
    """Read one item of `--lora-paths`: `NAME=PATH`, a path, or a JSON object.

    Raises:
        EngineError: the object is not valid. argparse does not catch exceptions of the flag's
            action, so SGLang exits with that error and status 1.
    """
    word = given.strip()
    if word.startswith("{") and word.endswith("}"):
        try:
            entry: dict[str, Any] = json.loads(word)
        except ValueError as error:
            raise EngineError(f"json.decoder.JSONDecodeError: {error}") from error
        if "lora_name" not in entry or "lora_path" not in entry:
            raise EngineError(
                f"AssertionError: {word!r} looks like a JSON str, but it does not contain "
                "'lora_name' and 'lora_path' keys."
            )
        return str(entry["lora_name"]), str(entry["lora_path"])
    name, equals, path = word.partition("=")
    return (name, path) if equals else (word, word)


def _in_own_words(error: EngineError) -> EngineError:
    if "No available memory" in str(error):
        return EngineError(
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."
        )
    if "chat template" in str(error):
        given = str(error).partition("string (")[2].partition(")")[0]
        return EngineError(
            f"RuntimeError: Chat template {given} is not a built-in template name or a valid chat "
            "template file path."
        )
    return EngineError(str(error).replace("World size", "Tensor parallel size"))
