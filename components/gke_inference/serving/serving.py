"""From what is meant to what an engine serves, for one kind of hardware."""

from gke_inference.catalogue.engine_flags import flags
from gke_inference.catalogue.tracing import COLLECTOR
from gke_inference.intent.intent import ServingIntent
from gke_inference.serving.disaggregation import port as engine_port
from gke_inference.serving.disaggregation import transfer_flag
from gke_inference.serving.hardware import Hardware
from gke_inference.serving.launcher.spec import Serving, Speculation
from gke_inference.serving.live_adapters import LiveAdapters, slots
from gke_inference.serving.weights import BucketPath, Storage, bucket_path
from gke_inference.sizing.memory import UTILISATION


def serving_of(
    intent: ServingIntent,
    node: Hardware,
    files: Storage,
    spanning: str | None,
    live: LiveAdapters | None,
) -> Serving:
    """Return what the engine of one kind of hardware serves."""
    room = slots(live, len(files.adapters), intent.adapter_rank)
    split = intent.tensor_parallel or node.tensor_parallel
    has_role = intent.role is not None
    return Serving(
        adapter_rank=room.rank,
        adapter_slots=room.in_batch,
        adapters=files.adapters,
        adapters_cached=room.cached,
        block_size=intent.block_size,
        # workers of a group compile, too, and what they keep is not gathered
        cache_archive=files.cache_archive if node.hosts == 1 else None,
        cache_folder=files.cache_folder if node.hosts == 1 or node.kind == "tpu" else None,
        collector=None if intent.trace_percent is None else COLLECTOR,
        context_tokens=intent.context_tokens,
        data_parallel=node.tensor_parallel // split,
        engine=intent.engine,
        extra_arguments=_extra_arguments(intent),
        has_versions=files.has_versions,
        hosts=node.hosts,
        image_queue=intent.image_queue,
        image_sizes=intent.image_sizes,
        image_steps=intent.image_steps,
        kind=node.kind,
        kv_cache_dtype=intent.kv_cache_dtype,
        kv_transfer=transfer_flag(node.rungs[0].accelerator) if has_role else None,
        longest_request_seconds=intent.longest_request_seconds,
        max_batch=intent.max_batch,
        memory_share=UTILISATION,
        pipeline_parallel=node.pipeline_parallel,
        port=engine_port(intent.role),
        prefix_caching=intent.prefix_caching,
        quantization=intent.quantization,
        read_ahead=files.is_cached,
        served_name=intent.served_name,
        source=files.source,
        spanning=spanning,
        speculation=_speculation(intent, files),
        task=intent.task,
        tensor_parallel=split,
        version=files.version,
    )


def _extra_arguments(intent: ServingIntent) -> tuple[str, ...]:
    known = flags(intent.engine)
    given = sorted(intent.engine_args.items())
    return tuple(word for name, value in given for word in known[name].written(value))


def _speculation(intent: ServingIntent, files: Storage) -> Speculation | None:
    guess = intent.speculative
    if guess is None:
        return None
    draft = draft_of(intent)
    return Speculation(
        guess.method,
        guess.tokens,
        files.draft,
        has_versions=draft is not None and draft.version is None,
        version=None if draft is None else draft.version,
    )


def draft_of(intent: ServingIntent) -> BucketPath | None:
    """Return where the draft model of speculative decoding is; None where there is none."""
    guess = intent.speculative
    if guess is None or guess.weights is None:
        return None
    return bucket_path(guess.weights, "speculative.weights")
