"""vLLM's command line.

Flags: vLLM 0.32 `arg_utils`; all of them exist in the releases that the platform locks.
"""

import json
from collections.abc import Mapping

from .spec import Serving

COMMAND = ("vllm", "serve")
"""The API server module is deprecated: vLLM 0.32 prints a warning for it."""

DATA_PARALLEL_PORT = 5555
"""Port of the leader on which the data-parallel ranks of a group find each other."""

PROMPT_LOOKUP_LONGEST = 4
"""Longest run of tokens that `ngram` looks for (docs.vllm.ai features/spec_decode)."""


def arguments(serving: Serving) -> list[str]:
    """Return the arguments after `COMMAND`, the model first.

    On TPU, `--max-num-seqs` is part of the compiled shapes, so a new value requires recompilation.
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
        ("--chat-template", serving.chat_template),
        ("--kv-cache-dtype", serving.kv_cache_dtype),
        ("--max-num-seqs", serving.max_batch),
        ("--quantization", serving.quantization),
        ("--otlp-traces-endpoint", serving.collector),
    ):
        if value is not None:
            args.append(f"{flag}={value}")
    args += _media(serving)
    args += _speculation(serving)
    if serving.kv_transfer is not None:
        args.append(serving.kv_transfer)
    return args + _adapters(serving)


def environment(serving: Serving) -> dict[str, str]:
    """Return the settings that are environment variables, not flags.

    A redirect from an allowed host would otherwise lead to any other
    (docs.vllm.ai features/multimodal_inputs).
    """
    return {"VLLM_MEDIA_URL_ALLOW_REDIRECTS": "0"} if serving.media_domains else {}


def _media(serving: Serving) -> list[str]:
    args: list[str] = []
    if serving.media_limits:
        args.append(f"--limit-mm-per-prompt={json.dumps(serving.media_limits, sort_keys=True)}")
    if serving.media_domains:
        args += ["--allowed-media-domains", *serving.media_domains]
    return args


def _group(serving: Serving) -> list[str]:
    """Return the arguments by which the processes of a replica find each other.

    The operator sets the variables in them.
    """
    args: list[str] = []
    if serving.pipeline_parallel > 1:
        args.append(f"--pipeline-parallel-size={serving.pipeline_parallel}")
    if serving.data_parallel > 1:
        args.append(f"--data-parallel-size={serving.data_parallel}")
    if serving.spanning == "ray":
        return [*args, "--distributed-executor-backend=ray"]
    if serving.all2all is not None:
        return [*args, *_experts(serving, serving.all2all)]
    if serving.spanning == "engine":
        return [
            *args,
            "--distributed-executor-backend=mp",
            f"--nnodes={serving.hosts}",
            "--node-rank=$(LWS_WORKER_INDEX)",
            "--master-addr=$(LWS_LEADER_ADDRESS)",
        ]
    return args


def _experts(serving: Serving, backend: str) -> list[str]:
    """Return the arguments of expert parallelism; over several hosts, `rank` adds that of a worker.

    The size is that of tensor times data parallelism (docs.vllm.ai
    serving/expert_parallel_deployment).
    """
    args = ["--enable-expert-parallel", f"--all2all-backend={backend}"]
    if serving.redundant_experts:
        config = json.dumps({"num_redundant_experts": serving.redundant_experts})
        args += ["--enable-eplb", f"--eplb-config={config}"]
    if serving.hosts > 1:
        args += [
            f"--data-parallel-size-local={serving.data_parallel // serving.hosts}",
            "--data-parallel-address=$(LWS_LEADER_ADDRESS)",
            f"--data-parallel-rpc-port={DATA_PARALLEL_PORT}",
        ]
        if serving.hybrid_load_balancing:
            args.append("--data-parallel-hybrid-lb")
    return args


def rank(serving: Serving, environment: Mapping[str, str]) -> list[str]:
    """Return the argument with the first data-parallel rank of a worker, or nothing.

    The only argument that is not in the pod: all workers have one template, and Kubernetes cannot
    multiply a worker's number by the ranks of a host.
    """
    worker = int(environment.get("LWS_WORKER_INDEX", "0"))
    if serving.all2all is None or worker == 0:
        return []
    return [f"--data-parallel-start-rank={worker * serving.data_parallel // serving.hosts}"]


def group_hosts(serving: Serving, environment: Mapping[str, str]) -> list[str]:
    """Return the addresses of the other pods of a group in which every pod has an API.

    A worker is called like its leader, with its number behind it, and shares its subdomain
    (sigs.k8s.io/lws v0.9.0 pkg/controllers/pod_controller.go).
    """
    leader = environment.get("LWS_LEADER_ADDRESS", "")
    if serving.all2all is None or not serving.hybrid_load_balancing or not leader:
        return []
    name, _, domain = leader.partition(".")
    hosts = [leader, *(f"{name}-{number}.{domain}" for number in range(1, serving.hosts))]
    del hosts[int(environment.get("LWS_WORKER_INDEX", "0"))]
    return hosts


def _speculation(serving: Serving) -> list[str]:
    guess = serving.speculation
    if guess is None:
        return []
    settings: dict[str, object] = {"num_speculative_tokens": guess.tokens}
    if guess.method == "ngram":
        settings |= {"method": "ngram", "prompt_lookup_max": PROMPT_LOOKUP_LONGEST}
    elif guess.method == "mtp":
        settings |= {"method": "mtp"}
    else:
        method = "draft_model" if guess.method == "draft" else guess.method
        settings |= {"method": method, "model": guess.source}
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
