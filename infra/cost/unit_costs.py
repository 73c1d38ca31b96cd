"""What a million tokens, or a thousand pictures, of each model of a stack cost."""

from collections.abc import Sequence
from dataclasses import dataclass

from gke_inference.catalogue.rungs import Rung
from gke_inference.sizing.architectures import find_model
from infra.cost.fitting import loaded_model
from infra.plan import Plan
from infra.stack import Model, Task
from planner.amount import AmountRange
from planner.choice.cost import Bill, Line
from planner.unit_cost.prompt_speed import decode_speed, embed_speed, prefill_speed
from planner.unit_cost.unit_cost import (
    MILLION_INPUT,
    MILLION_TOKENS,
    PREFILL,
    THOUSAND_PICTURES,
    Asked,
    Speed,
    Traffic,
    UnitCost,
    blended,
    picture_speed,
    token_speed,
)

DEFAULT_TRAFFIC = Traffic()
_UNITS = {
    Task.EMBED: MILLION_INPUT,
    Task.GENERATE: MILLION_TOKENS,
    Task.IMAGE: THOUSAND_PICTURES,
}


def unit_costs(plan: Plan, bill: Bill, traffic: Traffic = DEFAULT_TRAFFIC) -> tuple[UnitCost, ...]:
    """Return what a unit costs on each line of a bill, in its order.

    Args:
        plan: of the stack that the bill is of.
        bill: of `planner.choice.cost.bill` over `infra.cost.costing.served`.
        traffic: what requests are taken to be.
    """
    return tuple(
        _unit_cost(plan.models[line.served.model][0].settings, line, traffic) for line in bill.lines
    )


@dataclass(frozen=True)
class ModelCost:
    """What a unit of one model costs over its regions."""

    unit: str
    usd: AmountRange | None
    """Dollars; None where `reason` says why."""
    is_slow: bool
    """Whether some line keeps the promise on latency with no batch."""
    reason: str


def by_model(costs: Sequence[UnitCost]) -> dict[str, ModelCost]:
    """Return the cost of a unit by model, in the order of the stack."""
    names = dict.fromkeys(one.model for one in costs)
    return {name: _of_model([one for one in costs if one.model == name]) for name in names}


def _of_model(lines: Sequence[UnitCost]) -> ModelCost:
    unknown = [one.speed.basis for one in lines if one.usd is None]
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
    if rung is None:
        speed = Speed(_UNITS[model.task], None, "no rung has a price")
    else:
        speed = _speed(one.model, model, one.role, rung, traffic)
    return UnitCost(
        one.model,
        one.region,
        one.role,
        "" if rung is None else rung.label,
        speed,
        traffic.utilisation,
        line.replica,
        line.expected_replicas,
    )


def _speed(name: str, model: Model, role: str, rung: Rung, traffic: Traffic) -> Speed:
    unit = _UNITS[model.task]
    architecture = find_model(model.weights, name)
    if architecture is None:
        return Speed(unit, None, f"the architecture of {model.weights} is not known")
    if (architecture.kind == "diffusion") != (model.task is Task.IMAGE):
        return Speed(unit, None, f"{architecture.name} is no model of task {model.task.value}")
    if model.task is Task.IMAGE:
        offer = model.pictures
        steps, size = (offer.steps, offer.sizes[0]) if offer else (None, "1024x1024")
        return picture_speed(architecture, rung, steps=steps, size=size)
    slo = model.slo
    asked = Asked(
        architecture,
        model.size.parameters_billion,
        model.size.bits,
        model.context,
        model.engine.value,
        model.settings.tensor_parallel,
        slo.ttft_p95_ms if slo else None,
        slo.tpot_p95_ms if slo else None,
        loaded_model(name, model).kv_bits,
    )
    if model.task is Task.EMBED:
        return embed_speed(asked, rung, traffic)
    if model.disaggregated is None:
        return token_speed(asked, rung, traffic)
    return _of_half(asked, rung, traffic, role, model.disaggregated.threshold_tokens)


def _of_half(asked: Asked, rung: Rung, traffic: Traffic, role: str, threshold: int) -> Speed:
    """Return the speed of a role where prompts that are long enough are computed elsewhere."""
    computed = traffic.given * (1 - traffic.prefix_share)
    if computed >= threshold:
        half = prefill_speed if role == PREFILL else decode_speed
        return half(asked, rung, traffic)
    if role != PREFILL:
        return token_speed(asked, rung, traffic)
    why = f"of prompts {computed:.0f} tokens are computed, and below {threshold} decode does it"
    return Speed(MILLION_TOKENS, None, why)
