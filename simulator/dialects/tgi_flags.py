"""TGI's command line, and the settings of a server: `launcher/src/main.rs` at v3.3.7."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from simulator.dialects.flags import ClapCommandLine
from simulator.engine.settings import Deployment, EngineError, deploy
from twin.engines import vllm_flags

_LINE = ClapCommandLine("tgi", "text-generation-launcher")
_MEMORY = "cuda-memory-fraction"
_PORT = 3000
_CONCURRENT = 128
_BATCH = 256
_STOPS = 4
_QUANTIZED = {"awq": "awq", "bitsandbytes": "bitsandbytes", "fp8": "fp8", "gptq": "gptq"}


@dataclass(frozen=True)
class Settings:
    """A server's command line and settings."""

    flags: argparse.Namespace
    deployment: Deployment
    longest_prompt: int
    concurrent: int
    port: int
    most_stops: int


def settle(argv: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Read the arguments of `text-generation-launcher`.

    Raises:
        EngineError: the server would not start.
        SystemExit: status 2 with clap's message.
    """
    flags = _LINE.parse(argv)

    def whole(flag: str, default: int) -> int:
        return _LINE.whole(flag, getattr(flags, flag.replace("-", "_")), default)

    memory = _LINE.share(_MEMORY, flags.cuda_memory_fraction, 1.0)
    if not 0 <= memory <= 1:
        raise EngineError(f"ValueError: Invalid fraction value: {memory}. Allowed range: 0~1")
    model = flags.model_id or "bigscience/bloom-560m"
    words: dict[str, object] = {
        "tensor-parallel-size": whole("num-shard", 1),
        "max-model-len": -1,
        "gpu-memory-utilization": memory,
        "max-num-seqs": whole("max-batch-size", _BATCH),
        "quantization": _QUANTIZED.get(flags.quantize or ""),
        "kv-cache-dtype": "fp8" if flags.kv_cache_dtype else None,
    }
    made = [f"--{name}={value}" for name, value in words.items() if value is not None]
    if environment.get("PREFIX_CACHING", "1").lower() in ("0", "false"):
        made.append("--no-enable-prefix-caching")
    deployment = deploy(vllm_flags.parse([f"--model={model}", *made]), environment)
    longest = whole("max-total-tokens", min(deployment.max_model_len, deployment.shape.context))
    return Settings(
        flags,
        replace(deployment, max_model_len=longest),
        whole("max-input-tokens", longest - 1),
        whole("max-concurrent-requests", _CONCURRENT),
        whole("port", _PORT),
        whole("max-stop-sequences", _STOPS),
    )
