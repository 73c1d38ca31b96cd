"""vLLM's command line, as a pure function of what is served and on which hardware.

Flags: vLLM 0.32 `arg_utils`; all of them exist in the releases data/versions.yaml locks.
"""

from dataclasses import dataclass, field

from planner.memory import UTILISATION
from workloads import live_adapters
from workloads.live_adapters import LiveAdapters

PORT = 8000
COMMAND = ("python3", "-m", "vllm.entrypoints.openai.api_server")
"""Written out because the images differ: one has an entrypoint, the other has none."""

_ADAPTERS_IN_A_BATCH = 8
_QUANTIZATIONS = {
    "gpu": ("awq", "compressed-tensors", "fp8", "gptq", "modelopt", "mxfp4"),
    "tpu": ("compressed-tensors", "fp8"),
}
_KV_CACHE_DTYPES = ("auto", "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2")


@dataclass(frozen=True)
class Engine:
    """What one engine process serves."""

    kind: str
    """`tpu` or `gpu`."""
    served_name: str
    source: str
    """A `gs://` path that is streamed into device memory, or a folder of a mounted volume."""
    tensor_parallel: int
    """Devices the model is split over: chips, or twice that where a chip is two devices."""
    context_tokens: int
    pipeline_parallel: int = 1
    """Stages the model is cut into, one for each host of a GPU group."""
    hosts: int = 1
    """Nodes of one replica."""
    spanning: str | None = None
    """How the servers of a group find each other: `engine` or `ray`."""
    task: str = "generate"
    adapters: dict[str, str] = field(default_factory=dict[str, str])
    """Adapter name to its folder in a mounted volume."""
    adapter_rank: int = 16
    live: LiveAdapters | None = None
    """Adapters that come while it serves."""
    block_size: int | None = None
    kv_cache_dtype: str | None = None
    max_batch: int | None = None
    quantization: str | None = None
    collector: str | None = None
    """Where spans go, over OTLP."""
    port: int = PORT
    kv_transfer: str | None = None
    """The whole flag of a prefill or decode replica."""


def vllm_args(engine: Engine) -> list[str]:
    """Returns the arguments behind `COMMAND`.

    On TPU `--max-num-seqs` is part of the compiled shapes: another value means compiling again.

    Raises:
        ValueError: The engine or the hardware has no such feature; the message names the field.
    """
    _check(engine)
    args = [
        f"--model={engine.source}",
        f"--served-model-name={engine.served_name}",
        f"--port={engine.port}",
        f"--tensor-parallel-size={engine.tensor_parallel}",
        *_group_args(engine),
        f"--max-model-len={engine.context_tokens}",
        f"--gpu-memory-utilization={UTILISATION}",
        "--no-enable-log-requests",
    ]
    if engine.source.startswith("gs://"):
        args.append("--load-format=runai_streamer")
        if engine.tensor_parallel > 1:
            args.append('--model-loader-extra-config={"distributed":true}')
    if engine.task == "embed":
        args.append("--runner=pooling")
    else:
        args.append("--enable-prefix-caching")
    for flag, value in (
        ("--block-size", engine.block_size),
        ("--kv-cache-dtype", engine.kv_cache_dtype),
        ("--max-num-seqs", engine.max_batch),
        ("--quantization", engine.quantization),
        ("--otlp-traces-endpoint", engine.collector),
    ):
        if value is not None:
            args.append(f"{flag}={value}")
    if engine.kv_transfer is not None:
        args.append(engine.kv_transfer)
    return args + _adapter_args(engine)


def _group_args(engine: Engine) -> list[str]:
    """Returns how the processes of a replica find each other; the operator sets the variables."""
    args = [f"--pipeline-parallel-size={engine.pipeline_parallel}"] * (engine.pipeline_parallel > 1)
    if engine.spanning == "ray":
        return [*args, "--distributed-executor-backend=ray"]
    if engine.spanning == "engine":
        return [
            *args,
            "--distributed-executor-backend=mp",
            f"--nnodes={engine.hosts}",
            "--node-rank=$(LWS_WORKER_INDEX)",
            "--master-addr=$(LWS_LEADER_ADDRESS)",
        ]
    return args


def _adapter_args(engine: Engine) -> list[str]:
    pairs = [f"{name}={path}" for name, path in sorted(engine.adapters.items())]
    given = min(len(pairs), _ADAPTERS_IN_A_BATCH)
    return live_adapters.engine_args(engine.live, given, engine.adapter_rank, pairs)


def _check(engine: Engine) -> None:
    if engine.task == "embed" and engine.live is not None:
        raise ValueError("live_adapters: must be left out for task 'embed'")
    if engine.task == "embed" and engine.adapters:
        raise ValueError(f"adapters: must be empty for task 'embed', got {sorted(engine.adapters)}")
    if engine.kind == "tpu" and engine.source.startswith("gs://"):
        raise ValueError(
            f"weights: must be read from a mounted volume on TPU, got {engine.source!r}: the locked"
            " TPU release has no streamer"
        )
    if engine.kv_cache_dtype is not None and engine.kv_cache_dtype not in _KV_CACHE_DTYPES:
        raise ValueError(
            f"kv_cache_dtype: must be one of {', '.join(_KV_CACHE_DTYPES)},"
            f" got {engine.kv_cache_dtype!r}"
        )
    known = _QUANTIZATIONS[engine.kind]
    if engine.quantization is not None and engine.quantization not in known:
        raise ValueError(
            f"quantization: must be one of {', '.join(known)} on {engine.kind},"
            f" got {engine.quantization!r}"
        )
    if engine.block_size is not None and engine.block_size not in (8, 16, 32, 64, 128):
        raise ValueError(f"block_size: must be 8, 16, 32, 64 or 128, got {engine.block_size}")
