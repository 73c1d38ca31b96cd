"""Text Generation Inference's command line; the project is in maintenance mode upstream.

Flags: text-generation-inference `docs/source/reference/launcher.md` at db931fc.
"""

from .spec import Serving

COMMAND = ("text-generation-launcher",)

_KV_CACHE = {"fp8": "fp8_e4m3fn", "fp8_e4m3": "fp8_e4m3fn"}


def arguments(serving: Serving) -> list[str]:
    """Return the arguments after `COMMAND`; TGI's context includes prompt and answer.

    Prefix caching is on by default and has no flag; `environment` turns it off.
    """
    args = [
        f"--model-id={serving.source}",
        "--hostname=0.0.0.0",
        f"--port={serving.port}",
        f"--num-shard={serving.tensor_parallel}",
        f"--max-total-tokens={serving.context_tokens}",
        f"--max-input-tokens={serving.context_tokens - 1}",
        f"--cuda-memory-fraction={serving.memory_share}",
        "--usage-stats=off",
        "--json-output",
    ]
    kv_cache = serving.kv_cache_dtype
    for flag, value in (
        ("--kv-cache-dtype", None if kv_cache is None else _KV_CACHE.get(kv_cache, kv_cache)),
        ("--max-batch-size", serving.max_batch),
        ("--quantize", serving.quantization),
        ("--otlp-endpoint", serving.collector),
    ):
        if value is not None:
            args.append(f"{flag}={value}")
    if serving.speculation is not None:
        args.append(f"--speculate={serving.speculation.tokens}")
    return args


def environment(serving: Serving) -> dict[str, str]:
    """Return the settings that are environment variables, not flags."""
    return {"PREFIX_CACHING": "1" if serving.prefix_caching else "0"}
