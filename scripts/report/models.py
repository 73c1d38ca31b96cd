"""The models of a stack for the page, with canaries next to their models."""

from collections.abc import Sequence
from dataclasses import dataclass

from gke_inference.catalogue.versions import engine_version
from infra import plan as resolved
from infra.plan import Plan
from infra.stack.models import Slo
from scripts.report.number_formats import span, time


@dataclass(frozen=True)
class ServedModel:
    """One model."""

    name: str
    task: str
    engine: str
    """Engine with its releases, such as `vllm 0.32.0`."""
    form: str
    capacity: str
    size: str
    context: int
    """Tokens."""
    replicas: str
    """Replicas per region."""
    regions: tuple[str, ...]
    promise: tuple[str, ...]
    """SLOs of the model; may be empty."""
    adapters: tuple[str, ...]
    has_live_adapters: bool
    further: tuple[str, ...]
    """Image models that the same replicas also serve."""
    version_of: str | None
    """For a canary, its stable model and its share."""


def served_models(plan: Plan) -> tuple[ServedModel, ...]:
    """Return every model of a stack, in its order."""
    return tuple(_served(plan, every) for every in plan.models.values())


def _served(plan: Plan, every: Sequence[resolved.ServedModel]) -> ServedModel:
    served, model = every[0], every[0].settings
    standby = model.replicas.standby
    kept = f", {standby} on GPU standby" if standby else ""
    if model.replicas.buffer:
        kept += f", nodes kept for {model.replicas.buffer}"
    if model.replicas.schedule is not None:
        kept += f", at least {model.replicas.schedule.largest} in scheduled hours"
    version = served.version
    return ServedModel(
        served.name,
        model.task.value,
        _engine(every),
        plan.platform.form_of(model).value,
        model.capacity,
        f"{model.size.parameters_billion:g} B parameters of {model.size.bits} bit",
        model.context,
        span(model.replicas.min, model.replicas.max) + kept,
        tuple(each.region for each in every),
        _promise(model.slo),
        model.adapter_names(served.name),
        model.live_adapters is not None,
        tuple(model.further_models),
        None if version is None else f"{version.of}, {version.percent} %",
    )


def _engine(every: Sequence[resolved.ServedModel]) -> str:
    engine = every[0].settings.engine
    kinds = {rung.kind for served in every for rung in served.rungs.values()}
    releases = {engine_version(f"{engine}_{kind}") for kind in kinds}
    return f"{engine} {' and '.join(sorted(releases))}"


def _promise(slo: Slo | None) -> tuple[str, ...]:
    if slo is None:
        return ()
    found = {
        "first token in": (slo.ttft_p95_ms, "{:,} ms"),
        "next ones in": (slo.tpot_p95_ms, "{:,} ms"),
    }
    said = [f"{words} {form.format(each)}" for words, (each, form) in found.items() if each]
    return (*said, *([f"starts in {time(slo.cold_start_s)}"] if slo.cold_start_s else []))
