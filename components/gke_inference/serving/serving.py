"""From a model's arguments to what its engine is told, for one kind of hardware."""

from collections.abc import Mapping
from typing import Any

from gke_inference.catalogue.engines import engine
from gke_inference.catalogue.tracing import COLLECTOR
from gke_inference.serving.disaggregation import port as engine_port
from gke_inference.serving.disaggregation import transfer_flag
from gke_inference.serving.hardware import Hardware
from gke_inference.serving.launcher.spec import Serving, Speculation
from gke_inference.serving.live_adapters import LiveAdapters, slots
from gke_inference.serving.weights import BucketPath, Storage, bucket_path
from gke_inference.sizing.memory import UTILISATION


def serving_of(
    args: Mapping[str, Any],
    node: Hardware,
    files: Storage,
    served: str,
    task: str,
    spanning: str | None,
    live: LiveAdapters | None,
    weights_gib: float,
) -> Serving:
    """Returns what the engine of one kind of hardware serves.

    Raises:
        ValueError: A number is out of range; the message has the field first.
    """

    def number(name: str, low: int = 1, high: int = 4096) -> int | None:
        return None if args.get(name) is None else within(name, args[name], low, high)

    room = slots(live, len(files.adapters), int(args.get("adapter_rank", 16)))
    split = number("tensor_parallel") or node.tensor_parallel
    return Serving(
        adapter_rank=room.rank,
        adapter_slots=room.in_batch,
        adapters=files.adapters,
        adapters_cached=room.cached,
        block_size=number("block_size"),
        cache_folder=files.cache_folder,
        collector=COLLECTOR if "trace_percent" in args else None,
        context_tokens=within("context_tokens", args["context_tokens"], 1, 10_000_000),
        data_parallel=node.tensor_parallel // split,
        engine=args.get("engine", "vllm"),
        hosts=node.hosts,
        image_queue=number("image_queue", 1, 10_000),
        image_sizes=tuple(args.get("image_sizes", ())),
        image_steps=number("image_steps", 1, 100),
        kind=node.kind,
        kv_cache_dtype=args.get("kv_cache_dtype"),
        kv_transfer=None if args.get("role") is None else transfer_flag(node.rungs[0].accelerator),
        longest_request_seconds=int(args.get("longest_request_seconds", 300)),
        max_batch=number("max_batch"),
        memory_share=UTILISATION,
        pipeline_parallel=node.pipeline_parallel,
        port=engine_port(args.get("role")),
        prefix_caching=bool(args.get("prefix_caching", True)),
        quantization=args.get("quantization"),
        read_ahead=files.is_cached,
        served_name=served,
        source=files.source,
        spanning=spanning,
        speculation=_speculation(args, files),
        task=task,
        tensor_parallel=split,
        weights_bytes=int(weights_gib * 2**30),
    )


def _speculation(args: Mapping[str, Any], files: Storage) -> Speculation | None:
    given: Mapping[str, Any] | None = args.get("speculative")
    if given is None:
        return None
    tokens = within("speculative.tokens", given["tokens"], 1, 16)
    return Speculation(given["method"], tokens, files.draft)


def draft_of(args: Mapping[str, Any]) -> BucketPath | None:
    """Returns where the draft model of speculative decoding is; None where there is none."""
    given: Mapping[str, Any] = args.get("speculative") or {}
    uri: str | None = given.get("weights")
    return None if uri is None else bucket_path(uri, "speculative.weights")


def is_streamed(args: Mapping[str, Any], kind: str) -> bool:
    """Returns whether the engine reads its weights from the bucket by itself."""
    return engine(args.get("engine", "vllm")).hardware[kind].streamed


def within(field: str, value: Any, low: int, high: int) -> int:
    """Returns a whole number of a range.

    Raises:
        ValueError: It is outside.
    """
    if not low <= int(value) <= high:
        raise ValueError(f"{field}: must be {low} to {high}, got {value}")
    return int(value)
