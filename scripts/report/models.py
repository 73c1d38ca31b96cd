"""What a stack serves, as the page shows it: one entry a model, canaries beside their models."""

from dataclasses import dataclass

from gke_inference.catalogue.versions import engine_version
from infra.plan.canary import VersionedModel, with_canaries
from infra.plan.capacity import uses_tpu
from infra.stack import Model, Platform
from infra.stack.models import Slo
from scripts.report.words import span, time


@dataclass(frozen=True)
class ServedModel:
    """One model."""

    name: str
    task: str
    engine: str
    """With the releases of it, such as `vllm 0.32.0`."""
    form: str
    capacity: str
    size: str
    context: int
    """Tokens."""
    replicas: str
    """In each region."""
    regions: tuple[str, ...]
    promise: tuple[str, ...]
    """What the stack promises; empty where it promises nothing."""
    adapters: tuple[str, ...]
    has_live_adapters: bool
    version_of: str | None
    """Of a canary: the model it stands in for, with its share."""


def served_models(platform: Platform) -> tuple[ServedModel, ...]:
    """Return every model of a stack, in its order."""
    every = with_canaries(platform)
    return tuple(_served(every, name, model) for name, model in every.models.items())


def _served(platform: Platform, name: str, model: Model) -> ServedModel:
    standby = model.replicas.standby
    kept = f", {standby} on GPU standby" if standby else ""
    return ServedModel(
        name,
        model.task.value,
        _engine(platform, model),
        platform.form_of(model).value,
        model.capacity,
        f"{model.size.parameters_billion:g} B parameters of {model.size.bits} bit",
        model.context,
        span(model.replicas.min, model.replicas.max) + kept,
        tuple(platform.regions_of(model)),
        _promise(model.slo),
        model.adapters,
        model.live_adapters is not None,
        f"{model.of}, {model.percent} %" if isinstance(model, VersionedModel) else None,
    )


def _engine(platform: Platform, model: Model) -> str:
    kinds: set[str] = set()
    for region in platform.regions_of(model):
        on_tpu = uses_tpu(platform, model, region)
        rungs = platform.capacity[model.capacity].rungs_in(region).values()
        kinds |= {"tpu"} if on_tpu else set()
        kinds |= {"gpu"} if any(not rung.accelerator.is_tpu for rung in rungs) else set()
    releases = {engine_version(f"{model.engine.value}_{kind}") for kind in kinds}
    return f"{model.engine.value} {' and '.join(sorted(releases))}"


def _promise(slo: Slo | None) -> tuple[str, ...]:
    if slo is None:
        return ()
    found = {
        "first token in": (slo.ttft_p95_ms, "{:,} ms"),
        "next ones in": (slo.tpot_p95_ms, "{:,} ms"),
    }
    said = [f"{words} {form.format(each)}" for words, (each, form) in found.items() if each]
    return (*said, *([f"starts in {time(slo.cold_start_s)}"] if slo.cold_start_s else []))
