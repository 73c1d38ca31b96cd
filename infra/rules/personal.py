"""Rules about personalized images: a model, a queue and a folder that fit together."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import one_of
from gke_inference.personal.rules import check_callers, check_training
from gke_inference.sizing.architectures import is_sdxl
from gke_inference.storage.rules import check_classes
from infra.plan.capacity import queue_region
from infra.plan.names import bucket_in
from infra.plan.storage import is_on_folder
from infra.rules.clients import check_key_secret
from infra.stack import Layer, PersonalImages, Platform
from workloads.diffusion.config import RANKS
from workloads.diffusion.training import MOST_TEXT_TOKENS

_AT = "personal_images"


def check_personal(platform: Platform) -> Iterator[InputError]:
    """Yield the problems of a platform's personalized images."""
    personal = platform.personal_images
    if personal is None:
        return
    if platform.layer is not Layer.ALL:
        rule = "must not be set when layer is platform or serving"
        yield InputError(_AT, rule, personal.model)
        return
    yield from check_callers(f"{_AT}.callers", personal.callers)
    at = f"{_AT}.train_seconds"
    yield from check_training(at, personal.train_seconds, personal.retention_days)
    yield from check_classes(_AT, personal, "retention_days", personal.retention_days)
    yield from _check_model(platform, personal)
    yield from _check_queue(platform, personal)
    yield from check_key_secret(platform, _AT, personal.key_secret)


def _check_model(platform: Platform, personal: PersonalImages) -> Iterator[InputError]:
    model = platform.models.get(personal.model)
    where = f"{_AT}.model"
    if model is None:
        yield one_of(where, personal.model, sorted(platform.models))
        return
    live = model.live_adapters
    if live is None or not is_on_folder(model) or model.images is None:
        rule = "must be an image model with images, and live_adapters in filestore or lustre"
        yield InputError(where, rule, personal.model)
        return
    if is_sdxl(model.weights, personal.model):
        rule = "must be a model of FLUX.1, which the training program is for"
        yield InputError(where, rule, personal.model)
    if bucket_in(model.weights) is not None:
        rule = "must have weights in the models' bucket of the platform"
        yield InputError(where, rule, model.weights)
    if model.context > MOST_TEXT_TOKENS:
        rule = f"must be a model with a context of at most {MOST_TEXT_TOKENS} tokens"
        yield InputError(where, rule, model.context)
    if personal.rank not in RANKS:
        yield one_of(f"{_AT}.rank", str(personal.rank), [str(rank) for rank in RANKS])
    elif personal.rank > live.max_rank:
        rule = f"must be at most live_adapters.max_rank ({live.max_rank})"
        yield InputError(f"{_AT}.rank", rule, personal.rank)


def _check_queue(platform: Platform, personal: PersonalImages) -> Iterator[InputError]:
    queue = platform.queues.get(personal.queue)
    if queue is None:
        yield one_of(f"{_AT}.queue", personal.queue, sorted(platform.queues))
        return
    team = queue.teams.get(personal.team)
    if team is None:
        yield one_of(f"{_AT}.team", personal.team, sorted(queue.teams))
    elif not team.shared_folder:
        rule = f"must be a team of queue {personal.queue} with shared_folder"
        yield InputError(f"{_AT}.team", rule, personal.team)
    if platform.kinds_of(queue) - {"tpu"}:
        rule = "must be a queue of TPUs, which the training program is for"
        yield InputError(f"{_AT}.queue", rule, personal.queue)
    region, model = queue_region(platform, queue), platform.models.get(personal.model)
    if model is not None and region not in platform.regions_of(model):
        rule = f"must be a queue in a region of model {personal.model}"
        yield InputError(f"{_AT}.queue", rule, personal.queue)
