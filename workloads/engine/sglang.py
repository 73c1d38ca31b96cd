"""SGLang's command line. Flags: sglang 0.5.21 `srt/arg_groups`."""

import json

from .spec import Serving

COMMAND = ("python3", "-m", "sglang.launch_server")

_KV_CACHE = {"bfloat16": "bf16", "fp8": "fp8_e4m3"}
_NGRAM_TOKENS_LEAST = 2


def arguments(serving: Serving) -> list[str]:
    """Return the arguments after `COMMAND`."""
    args = [
        f"--model-path={serving.source}",
        f"--served-model-name={serving.served_name}",
        "--host=0.0.0.0",
        f"--port={serving.port}",
        f"--tp-size={serving.tensor_parallel}",
        f"--context-length={serving.context_tokens}",
        f"--mem-fraction-static={serving.memory_share}",
        "--enable-metrics",
    ]
    if serving.source.startswith("gs://"):
        args.append("--load-format=runai_streamer")
    if serving.data_parallel > 1:
        args.append(f"--dp-size={serving.data_parallel}")
    if serving.task == "embed":
        args.append("--is-embedding")
    if not serving.prefix_caching:
        args.append("--disable-radix-cache")
    kv_cache = serving.kv_cache_dtype
    for flag, value in (
        ("--chat-template", serving.chat_template),
        ("--page-size", serving.block_size),
        ("--kv-cache-dtype", None if kv_cache is None else _KV_CACHE.get(kv_cache, kv_cache)),
        ("--max-running-requests", serving.max_batch),
        ("--quantization", serving.quantization),
    ):
        if value is not None:
            args.append(f"{flag}={value}")
    if serving.collector is not None:
        # gRPC without a scheme, like its default localhost:4317
        args += ["--enable-trace", f"--otlp-traces-endpoint={serving.collector.split('//')[-1]}"]
    return args + _media(serving) + _speculation(serving) + _adapters(serving)


def _media(serving: Serving) -> list[str]:
    args: list[str] = []
    if serving.media_limits:
        limits = json.dumps(serving.media_limits, sort_keys=True)
        args.append(f"--limit-mm-data-per-request={limits}")
    if serving.media_domains:
        args += ["--allowed-media-domains", *serving.media_domains]
    return args


def _speculation(serving: Serving) -> list[str]:
    guess = serving.speculation
    if guess is None:
        return []
    tokens = f"--speculative-num-draft-tokens={max(_NGRAM_TOKENS_LEAST, guess.tokens)}"
    if guess.method == "ngram":
        return ["--speculative-algorithm=NGRAM", tokens]
    return [
        "--speculative-algorithm=STANDALONE",
        f"--speculative-draft-model-path={guess.source}",
        f"--speculative-num-steps={guess.tokens}",
        "--speculative-eagle-topk=1",
        f"--speculative-num-draft-tokens={guess.tokens + 1}",  # the last one is its own check
    ]


def _adapters(serving: Serving) -> list[str]:
    if serving.adapter_slots == 0:
        return []
    return [
        "--enable-lora",
        f"--max-loras-per-batch={serving.adapter_slots + 1}",  # requests without one count, too
        f"--max-lora-rank={serving.adapter_rank}",
        "--lora-paths",
        *(f"{name}={path}" for name, path in sorted(serving.adapters.items())),
    ]
