"""Cost per million tokens, or per thousand images or videos, of each model of a stack."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gke_inference.catalogue.rungs import Rung
from gke_inference.intent.expert_settings import Experts
from gke_inference.intent.fitting import loaded_model
from gke_inference.sizing.architectures import Architecture, find_model
from infra.plan import Plan
from infra.plan.engine import stack_intent
from infra.stack import FurtherModel, ImageGeneration, Model, Role, Task, Videos
from planner.amount import AmountRange
from planner.choice.cost import Bill, Line
from planner.choice.served import BUFFER, PREFILL
from planner.speed.speculation import METHODS
from planner.unit_cost.prompt_speed import decode_speed, embed_speed, prefill_speed
from planner.unit_cost.unit_cost import (
    MILLION_INPUT,
    MILLION_PREDICTIONS,
    MILLION_TOKENS,
    THOUSAND_PICTURES,
    THOUSAND_VIDEOS,
    Asked,
    Speed,
    Traffic,
    UnitCost,
    batch_speed,
    blended,
    diffusion_speed,
    token_speed,
)

DEFAULT_TRAFFIC = Traffic()
_UNITS = {
    Task.EMBED: MILLION_INPUT,
    Task.GENERATE: MILLION_TOKENS,
    Task.IMAGE: THOUSAND_PICTURES,
    Task.PREDICT: MILLION_PREDICTIONS,
    Task.VIDEO: THOUSAND_VIDEOS,
}


def unit_costs(plan: Plan, bill: Bill, traffic: Traffic = DEFAULT_TRAFFIC) -> tuple[UnitCost, ...]:
    """Return the unit cost of each bill line, in bill order.

    Args:
        plan: The resolved stack of the bill.
        bill: Result of `planner.choice.cost.bill` for `infra.estimate.stack_cost.served`.
        traffic: Assumed requests.
    """
    return tuple(
        _unit_cost(plan.models[line.served.model][0].settings, line, traffic) for line in bill.lines
    )


@dataclass(frozen=True)
class ModelCost:
    """Unit cost of one model across its regions."""

    unit: str
    usd: AmountRange | None
    """US dollars, or None for the given `reason`."""
    is_slow: bool
    """Whether some line cannot meet the latency promise at any batch size."""
    reason: str
    server: str = ""
    """Model whose replicas also serve this one; empty if it has its own replicas."""


def by_model(costs: Sequence[UnitCost]) -> dict[str, ModelCost]:
    """Return the unit cost by model, in stack order; further image models follow their server."""
    found: dict[str, ModelCost] = {}
    for name in dict.fromkeys(one.model for one in costs):
        lines = [one for one in costs if one.model == name]
        found[name] = _of_model(lines)
        others = [other for one in lines for other in one.of_further]
        for further in dict.fromkeys(other.model for other in others):
            own = _of_model([other for other in others if other.model == further])
            found[further] = replace(own, server=name)
    return found


def _of_model(lines: Sequence[UnitCost]) -> ModelCost:
    unknown = [one.speed.basis for one in lines if one.usd is None and one.role != BUFFER]
    return ModelCost(
        lines[0].speed.unit,
        blended(lines),
        any(not one.speed.keeps_promise for one in lines),
        unknown[0] if unknown else "",
    )


def _unit_cost(model: Model, line: Line, traffic: Traffic) -> UnitCost:
    one = line.served
    rung = next(
        (
            rung
            for rung, option in zip(one.rungs, line.options, strict=True)
            if option.price is not None
        ),
        None,
    )
    if one.role == BUFFER:
        speed = Speed(_UNITS[model.task], None, "its nodes are empty")
    elif rung is None:
        speed = Speed(_UNITS[model.task], None, "no rung has a price")
    else:
        speed = _speed(one.model, model, one.role, rung, traffic)
    batched = None
    if rung is not None and speed.per_second is not None and _has_batches(model, one.role):
        batched = _speed(one.model, model, one.role, rung, traffic, is_batch=True)
    return UnitCost(
        one.model,
        one.region,
        one.role,
        "" if rung is None else rung.label,
        speed,
        traffic.utilisation,
        line.replica,
        line.expected_replicas,
        batched,
        {} if rung is None or one.role == BUFFER else _further(one.model, model, rung),
        _shares(one.model, model),
    )


def _shares(name: str, model: Model) -> dict[str, float]:
    """Return the share of a replica's chips that each image model has for itself."""
    chips = {} if model.images is None else model.images.chips_by_model(name)
    return {each: own / sum(chips.values()) for each, own in chips.items()}


def _has_batches(model: Model, role: str) -> bool:
    """Return whether a line answers batch requests as a whole."""
    return model.task is Task.GENERATE and model.disaggregated is None and role != PREFILL


def _speed(
    name: str, model: Model, role: str, rung: Rung, traffic: Traffic, *, is_batch: bool = False
) -> Speed:
    unit = _UNITS[model.task]
    if model.task is Task.PREDICT:
        return Speed(unit, None, "the speed of a predictive model is not modeled: measure it")
    architecture = _architecture(model.weights, name, model.task)
    if isinstance(architecture, str):
        return Speed(unit, None, architecture)
    if model.task is Task.IMAGE:
        offer = model.images
        steps = None if offer is None else _steps(offer)
        share = _shares(name, model).get(name, 1.0)
        return diffusion_speed(architecture, rung, steps=steps, size=_size(model), share=share)
    if model.task is Task.VIDEO:
        videos = Videos() if model.videos is None else model.videos
        size, frames = videos.sizes[0], videos.frames[0]
        return diffusion_speed(architecture, rung, steps=videos.steps, size=size, frames=frames)
    slo = model.slo
    asked = Asked(
        architecture,
        model.size.parameters_billion,
        model.size.bits,
        model.context,
        model.engine,
        model.settings.tensor_parallel,
        slo.ttft_p95_ms if slo else None,
        slo.tpot_p95_ms if slo else None,
        loaded_model(stack_intent(name, model, {})).kv_bits,
        model.experts is not None,
        model.experts.redundant if model.experts else 0,
        _backend(model, role),
        _speculative(model),
    )
    if model.task is Task.EMBED:
        return embed_speed(asked, rung, traffic)
    if model.disaggregated is None:
        return (batch_speed if is_batch else token_speed)(asked, rung, traffic)
    return _of_half(asked, rung, traffic, role, model.disaggregated.threshold_tokens)


def _further(first: str, model: Model, rung: Rung) -> dict[str, Speed]:
    """Return the throughput of each further image model of a replica."""
    found: dict[str, Speed] = {}
    shares = _shares(first, model)
    for name, further in model.further_models.items():
        architecture = _architecture(further.weights, name, model.task)
        found[name] = (
            Speed(THOUSAND_PICTURES, None, architecture)
            if isinstance(architecture, str)
            else diffusion_speed(
                architecture,
                rung,
                steps=_steps(further),
                size=_size(model),
                share=shares.get(name, 1.0),
            )
        )
    return found


def _architecture(weights: str, name: str, task: Task) -> Architecture | str:
    """Return the architecture of a model, or the reason why its speed is unknown."""
    found = find_model(weights, name)
    if found is None:
        return f"the architecture of {weights} is not known"
    is_own = found.is_video is (task is Task.VIDEO) if task.is_diffusion else True
    if found.is_diffusion != task.is_diffusion or not is_own:
        return f"{found.name} is no model of task {task.value}"
    return found


def _steps(offer: ImageGeneration | FurtherModel) -> int | None:
    """Return the denoising steps of an image, or None for the model's default."""
    return offer.steps if offer.sigmas is None else len(offer.sigmas)


def _size(model: Model) -> str:
    return "1024x1024" if model.images is None else model.images.sizes[0]


def _speculative(model: Model) -> tuple[str, int] | None:
    """Return the method and draft tokens of speculative decoding, if its speed is modeled."""
    guess = model.settings.speculative
    if guess is None or guess.method not in METHODS:
        return None
    return guess.method, guess.tokens


def _backend(model: Model, role: str) -> str:
    """Return the all-to-all backend of a role of a model."""
    experts, one = model.experts or Experts(), None
    if model.disaggregated is not None:
        one = Role.PREFILL if role == PREFILL else Role.DECODE
    return experts.backend(one).value


def _of_half(asked: Asked, rung: Rung, traffic: Traffic, role: str, threshold: int) -> Speed:
    """Return the speed of a role of a disaggregated model."""
    computed = traffic.given * (1 - traffic.prefix_share)
    if computed >= threshold:
        half = prefill_speed if role == PREFILL else decode_speed
        return half(asked, rung, traffic)
    if role != PREFILL:
        return token_speed(asked, rung, traffic)
    why = f"of prompts {computed:.0f} tokens are computed, and below {threshold} decode does it"
    return Speed(MILLION_TOKENS, None, why)
