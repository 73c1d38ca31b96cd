"""From an intent to the served configuration, for one kind of hardware."""

from gke_inference.catalogue.engine_flags import flags
from gke_inference.catalogue.engines import engine
from gke_inference.catalogue.tracing import COLLECTOR
from gke_inference.intent.intent import ServingIntent
from gke_inference.serving.disaggregation import port as engine_port
from gke_inference.serving.disaggregation import transfer_flag
from gke_inference.serving.hardware import Hardware
from gke_inference.serving.kv.offload import folders, limits, offload_flag, own_folder
from gke_inference.serving.launch import FOLDER
from gke_inference.serving.launcher.spec import CHAT_TEMPLATE, ImageModel, Serving, Speculation
from gke_inference.serving.live_adapters import LiveAdapters, slots
from gke_inference.serving.weights import BucketPath, Storage, bucket_path
from gke_inference.sizing.memory import UTILISATION
from gke_inference.sizing.shapes import sees

_NO_DOMAIN = "none.invalid"
"""A host that does not exist (RFC 2606): engines allow every host if none is listed."""


def serving_of(
    intent: ServingIntent,
    node: Hardware,
    files: Storage,
    spanning: str | None,
    live: LiveAdapters | None,
) -> Serving:
    """Return the served configuration of the engine on one kind of hardware."""
    room = slots(live, len(files.adapters), intent.adapter_rank)
    parallel, offload = intent.experts, intent.kv_offload
    split = intent.split or node.tensor_parallel
    stages = 1 if parallel is not None else node.pipeline_parallel
    return Serving(
        adapter_rank=room.rank,
        adapter_slots=room.in_batch,
        adapters=files.adapters,
        adapters_cached=room.cached,
        block_size=intent.block_size,
        # workers of a group also compile, and their caches are not collected
        cache_archive=files.cache_archive if node.hosts == 1 else None,
        cache_folder=files.cache_folder if node.hosts == 1 or node.kind == "tpu" else None,
        chat_template=None if intent.chat_template is None else f"{FOLDER}/{CHAT_TEMPLATE}",
        collector=None if intent.trace_percent is None else COLLECTOR,
        context_tokens=intent.context_tokens,
        all2all=None if parallel is None else parallel.backend(intent.role),
        data_parallel=node.tensor_parallel * node.pipeline_parallel // (split * stages),
        engine=intent.engine,
        extra_arguments=_extra_arguments(intent),
        has_versions=files.has_versions,
        hosts=node.hosts,
        hybrid_load_balancing=parallel is not None and parallel.hybrid_load_balancing,
        image_models=_image_models(intent, files),
        image_queue=intent.image_queue,
        image_sigmas=intent.image_sigmas,
        image_sizes=intent.image_sizes,
        image_step_cache=intent.image_step_cache,
        image_steps=intent.image_steps,
        kind=node.kind,
        kv_cache_dtype=intent.kv_cache_dtype,
        kv_current=() if offload is None else tuple(folders(offload, own_folder(intent))),
        kv_folders={} if offload is None else limits(offload, own_folder(intent)),
        kv_transfer=_kv_transfer(intent, node),
        live_adapters=live.folder if live is not None and intent.task == "image" else None,
        longest_request_seconds=intent.longest_request_seconds,
        max_batch=1 if intent.task == "video" else intent.max_batch,
        media_domains=_media_domains(intent, node.kind),
        media_limits={} if intent.multimodal is None else dict(intent.multimodal.limits),
        memory_share=UTILISATION,
        pipeline_parallel=stages,
        port=engine_port(intent.role),
        prefix_caching=intent.prefix_caching,
        quantization=intent.quantization,
        read_ahead=files.is_cached,
        redundant_experts=0 if parallel is None else parallel.redundant,
        secrets=dict(intent.engine_secrets),
        served_name=intent.served_name,
        source=files.source,
        spanning=spanning,
        speculation=_speculation(intent, files),
        task=intent.task,
        tensor_parallel=split,
        version=files.version,
        video_frames=intent.video_frames,
    )


def _media_domains(intent: ServingIntent, kind: str) -> tuple[str, ...]:
    """Return the hosts from which the engine may fetch media, unless the model has no use for any.

    Without a list, vLLM and SGLang fetch whatever a client names, also inside the network
    (docs.vllm.ai features/multimodal_inputs).
    """
    if not engine(intent.engine).hardware[kind].multimodal:
        return ()
    if sees(intent.weights, intent.served_name) is False:
        return ()
    limits = intent.multimodal
    return (_NO_DOMAIN,) if limits is None or not limits.domains else limits.domains


def _kv_transfer(intent: ServingIntent, node: Hardware) -> str | None:
    if intent.role is not None:
        return transfer_flag(node.rungs[0].accelerator)
    if intent.kv_offload is not None:
        return offload_flag(intent.kv_offload, own_folder(intent))
    return None


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


def further_of(intent: ServingIntent) -> dict[str, BucketPath]:
    """Return the location of each further image model."""
    return {
        name: bucket_path(model.weights, f"image_models.{name}.weights")
        for name, model in intent.image_models.items()
    }


def _image_models(intent: ServingIntent, files: Storage) -> dict[str, ImageModel]:
    found: dict[str, ImageModel] = {}
    for name, at in further_of(intent).items():
        model = intent.image_models[name]
        found[name] = ImageModel(
            context_tokens=model.context_tokens,
            has_versions=at.version is None,
            sigmas=model.sigmas,
            source=files.further[name],
            steps=model.steps,
            version=at.version,
        )
    return found


def draft_of(intent: ServingIntent) -> BucketPath | None:
    """Return the location of the draft model of speculative decoding, or None."""
    guess = intent.speculative
    if guess is None or guess.weights is None:
        return None
    return bucket_path(guess.weights, "speculative.weights")
