"""vLLM's command line.

Flags: vLLM 0.32 `arg_utils`; all of them exist in the releases that the platform locks.
"""

import json

from .spec import Serving

COMMAND = ("vllm", "serve")
"""Its API server as a module is on its way out: vLLM 0.32 warns of it."""

PROMPT_LOOKUP_LONGEST = 4
"""Longest run of tokens that `ngram` looks for (docs.vllm.ai features/spec_decode)."""


def arguments(serving: Serving) -> list[str]:
    """Return the arguments behind `COMMAND`, the model first.

    On TPU `--max-num-seqs` is part of the compiled shapes: another value means compiling again.
    """
    args = [
        serving.source,
        f"--served-model-name={serving.served_name}",
        f"--port={serving.port}",
        f"--tensor-parallel-size={serving.tensor_parallel}",
        *_group(serving),
        f"--max-model-len={serving.context_tokens}",
        f"--gpu-memory-utilization={serving.memory_share}",
        "--no-enable-log-requests",
    ]
    if serving.source.startswith("gs://"):
        args.append("--load-format=runai_streamer")
        if serving.tensor_parallel > 1:
            args.append('--model-loader-extra-config={"distributed":true}')
    if serving.task == "embed":
        args.append("--runner=pooling")
    elif serving.prefix_caching:
        args.append("--enable-prefix-caching")
    else:
        args.append("--no-enable-prefix-caching")
    for flag, value in (
        ("--block-size", serving.block_size),
        ("--kv-cache-dtype", serving.kv_cache_dtype),
        ("--max-num-seqs", serving.max_batch),
        ("--quantization", serving.quantization),
        ("--otlp-traces-endpoint", serving.collector),
    ):
        if value is not None:
            args.append(f"{flag}={value}")
    args += _speculation(serving)
    if serving.kv_transfer is not None:
        args.append(serving.kv_transfer)
    return args + _adapters(serving)


def _group(serving: Serving) -> list[str]:
    """Return how the processes of a replica find each other; the operator sets the variables."""
    args: list[str] = []
    if serving.pipeline_parallel > 1:
        args.append(f"--pipeline-parallel-size={serving.pipeline_parallel}")
    if serving.data_parallel > 1:
        args.append(f"--data-parallel-size={serving.data_parallel}")
    if serving.spanning == "ray":
        return [*args, "--distributed-executor-backend=ray"]
    if serving.spanning == "engine":
        return [
            *args,
            "--distributed-executor-backend=mp",
            f"--nnodes={serving.hosts}",
            "--node-rank=$(LWS_WORKER_INDEX)",
            "--master-addr=$(LWS_LEADER_ADDRESS)",
        ]
    return args


def _speculation(serving: Serving) -> list[str]:
    guess = serving.speculation
    if guess is None:
        return []
    settings: dict[str, object] = {"num_speculative_tokens": guess.tokens}
    if guess.method == "ngram":
        settings |= {"method": "ngram", "prompt_lookup_max": PROMPT_LOOKUP_LONGEST}
    else:
        settings |= {"method": "draft_model", "model": guess.source}
    return [f"--speculative-config={json.dumps(settings, sort_keys=True)}"]


def _adapters(serving: Serving) -> list[str]:
    if serving.adapter_slots == 0:
        return []
    args = [
        "--enable-lora",
        f"--max-loras={serving.adapter_slots}",
        f"--max-cpu-loras={serving.adapters_cached}",
        f"--max-lora-rank={serving.adapter_rank}",
    ]
    names = [f"{name}={path}" for name, path in sorted(serving.adapters.items())]
    return [*args, "--lora-modules", *names] if names else args
