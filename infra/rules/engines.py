"""Rules about engines: what a model asks of its server, the server can do on every rung."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.rungs import Rung
from gke_inference.serving.engine_rules import Wanted, refused
from infra.plan import CapacityByRegion
from infra.stack import EngineSettings, Model, Platform
from infra.stack.problems import join

_SETTINGS = frozenset(EngineSettings.model_fields)
_ELSEWHERE = {"role": "disaggregated"}
_WHOLE_BITS = 16


def check_engines(platform: Platform, by_region: CapacityByRegion) -> Iterator[InputError]:
    """Yield what the engines of a platform, or their hardware, cannot do.

    Args:
        platform: The stack.
        by_region: Its capacity, resolved.
    """
    for name, model in platform.models.items():
        if model.capacity not in platform.capacity:
            continue  # check_models reports it
        problem = refused(wanted(model), _rungs(platform, by_region, model))
        if problem is not None:
            field, rule = problem
            yield InputError(join("models", name, *_path(field)), rule)
        yield from _check_bits(name, model)


def wanted(model: Model) -> Wanted:
    """Return what a model asks of its engine."""
    settings = model.settings
    guess = settings.speculative
    return Wanted(
        adapters=len(model.adapters),
        block_size=settings.block_size,
        engine=model.engine.value,
        has_draft=guess is not None and guess.weights is not None,
        has_live_adapters=model.live_adapters is not None,
        is_disaggregated=model.disaggregated is not None,
        kv_cache_dtype=None if settings.kv_cache_dtype is None else settings.kv_cache_dtype.value,
        max_batch=settings.max_batch,
        prefix_caching=settings.prefix_caching,
        quantization=None if settings.quantization is None else settings.quantization.value,
        speculative=None if guess is None else guess.method.value,
        task=model.task.value,
        tensor_parallel=settings.tensor_parallel,
    )


def _path(field: str) -> tuple[str, ...]:
    words = tuple(_ELSEWHERE.get(field, field).split("."))
    return ("settings", *words) if words[0] in _SETTINGS else words


def _rungs(platform: Platform, by_region: CapacityByRegion, model: Model) -> list[Rung]:
    """Return every rung of a model; a broken one is reported by check_capacity."""
    found: dict[int, Rung] = {}
    for region in platform.regions_of(model):
        found.update(by_region[model.capacity][region].rungs)
    return [found[at] for at in sorted(found)]


def _check_bits(name: str, model: Model) -> Iterator[InputError]:
    """The size of quantized weights is what they weigh as served, or they seem not to fit."""
    asked = model.settings.quantization
    if asked is not None and model.size.bits >= _WHOLE_BITS:
        where = join("models", name, "size", "bits")
        yield InputError(
            where, f"must be below 16 with quantization {asked.value}", model.size.bits
        )
