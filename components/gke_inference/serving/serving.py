"""From an intent to the served configuration, for one kind of hardware."""

from gke_inference.catalogue.engine_flags import flags
from gke_inference.catalogue.engines import engine
from gke_inference.catalogue.load_balancing import MAX_BODY_BYTES
from gke_inference.catalogue.tracing import COLLECTOR
from gke_inference.intent.diffusion_settings import ImageGeneration, Videos
from gke_inference.intent.intent import ServingIntent
from gke_inference.intent.words import Task
from gke_inference.serving.disaggregation import port as engine_port
from gke_inference.serving.disaggregation import transfer_flag
from gke_inference.serving.hardware import Hardware
from gke_inference.serving.kv.offload import folders, limits, offload_flag, own_folder
from gke_inference.serving.launch import FOLDER
from gke_inference.serving.launcher.spec import (
    CHAT_TEMPLATE,
    GRPC_PORT,
    ImageModel,
    Serving,
    Speculation,
)
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
    room = slots(live, len(files.adapters), intent.rank)
    parallel, settings, made = intent.experts, intent.settings, intent.generated
    images = made if isinstance(made, ImageGeneration) else None
    offload, media = settings.kv_offload, settings.multimodal
    split = intent.split or node.tensor_parallel
    stages = 1 if parallel is not None else node.pipeline_parallel
    return Serving(
        adapter_rank=room.rank,
        adapter_slots=room.in_batch,
        adapters=files.adapters,
        adapters_cached=room.cached,
        block_size=settings.block_size,
        # workers of a group also compile, and their caches are not collected
        cache_archive=files.cache_archive if node.hosts == 1 else None,
        cache_folder=files.cache_folder if node.hosts == 1 or node.kind == "tpu" else None,
        chat_template=None if settings.chat_template is None else f"{FOLDER}/{CHAT_TEMPLATE}",
        collector=None if intent.trace_percent is None else COLLECTOR,
        context_tokens=intent.context,
        all2all=None if parallel is None else parallel.backend(intent.role).value,
        data_parallel=node.tensor_parallel * node.pipeline_parallel // (split * stages),
        engine=intent.engine,
        extra_arguments=_extra_arguments(intent),
        has_versions=files.has_versions,
        grpc_port=GRPC_PORT if intent.grpc else None,
        hosts=node.hosts,
        hybrid_load_balancing=parallel is not None and parallel.hybrid_load_balancing,
        image_body_bytes=None if images is None else MAX_BODY_BYTES,
        image_adapters=None if made is None else made.max_adapters,
        image_models=_image_models(intent, files),
        image_queue=None if made is None else made.queue,
        image_sigmas=(images.sigmas or ()) if images is not None else (),
        image_sizes=() if made is None else made.sizes,
        image_step_cache=None if images is None else images.step_cache,
        image_steps=None if made is None else made.steps,
        kind=node.kind,
        kv_cache_dtype=settings.kv_cache_dtype,
        kv_current=() if offload is None else tuple(folders(offload, own_folder(intent))),
        kv_folders={} if offload is None else limits(offload, own_folder(intent)),
        kv_transfer=_kv_transfer(intent, node),
        live_adapters=live.folder if live is not None and intent.task.is_diffusion else None,
        longest_request_seconds=intent.longest_request_seconds,
        max_batch=1 if intent.task is Task.VIDEO else settings.max_batch,
        media_domains=_media_domains(intent, node.kind),
        media_limits={} if media is None else media.limits,
        memory_share=UTILISATION,
        pipeline_parallel=stages,
        port=engine_port(intent.role),
        prefix_caching=settings.prefix_caching,
        quantization=settings.quantization,
        read_ahead=files.is_cached,
        redundant_experts=0 if parallel is None else parallel.redundant,
        secrets=dict(settings.engine_secrets),
        served_name=intent.served_name,
        source=files.source,
        spanning=spanning,
        speculation=_speculation(intent, files),
        task=intent.task.value,
        tensor_parallel=split,
        version=files.version,
        video_frames=made.frames if isinstance(made, Videos) else (),
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
    limits = intent.settings.multimodal
    return (_NO_DOMAIN,) if limits is None or not limits.domains else limits.domains


def _kv_transfer(intent: ServingIntent, node: Hardware) -> str | None:
    if intent.role is not None:
        return transfer_flag(node.rungs[0].accelerator)
    offload = intent.settings.kv_offload
    return None if offload is None else offload_flag(offload, own_folder(intent))


def _extra_arguments(intent: ServingIntent) -> tuple[str, ...]:
    known = flags(intent.engine)
    given = sorted(intent.settings.flags.items())
    return tuple(word for name, value in given for word in known[name].written(value))


def _speculation(intent: ServingIntent, files: Storage) -> Speculation | None:
    guess = intent.settings.speculative
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
        name: bucket_path(model.weights, f"images.models.{name}.weights")
        for name, model in intent.further_models.items()
    }


def _image_models(intent: ServingIntent, files: Storage) -> dict[str, ImageModel]:
    found: dict[str, ImageModel] = {}
    for name, at in further_of(intent).items():
        model = intent.further_models[name]
        found[name] = ImageModel(
            chips=model.chips,
            context_tokens=model.context,
            has_versions=at.version is None,
            sigmas=model.sigmas or (),
            source=files.further[name],
            steps=model.steps,
            version=at.version,
        )
    return found


def draft_of(intent: ServingIntent) -> BucketPath | None:
    """Return the location of the draft model of speculative decoding, or None."""
    guess = intent.settings.speculative
    if guess is None or guess.weights is None:
        return None
    return bucket_path(guess.weights, "settings.speculative.weights")
