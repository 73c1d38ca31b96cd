"""A stack's models as requirements for the planner's portfolio."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.quotas import accelerator_metric, metric, metric_names
from gke_inference.intent.fitting import loaded_model
from gke_inference.serving.live_adapters import slots
from gke_inference.sizing.architectures import find_model
from infra.estimate.quota_needs import Need
from infra.estimate.unit_costs import unit_costs
from infra.plan import Plan, ServedModel
from infra.plan.engine import stack_intent
from infra.stack import Form, Model, Task
from planner.advice.portfolio import Key, Requirement
from planner.choice.candidates import Candidate
from planner.choice.cost import Bill
from planner.choice.question import FOR_SERVING, Question
from planner.unit_cost.unit_cost import Traffic
from scripts.plan.offers import Asked, Side, best_sides, offer_of, sides
from scripts.plan.placement_problem import placement_problem
from scripts.plan.proposals import Proposal, placement_for

_OF_HARDWARE = ("canary", "disaggregated", "disk", "experts", "spanning")
"""Settings of a model that depend on its hardware, which the plan does not choose."""


@dataclass(frozen=True)
class Load:
    """Traffic of a model over all of its regions."""

    rate: float
    """Peak requests per second."""
    given: int
    """Tokens per prompt."""
    made: int
    """Tokens per answer."""


class _KeptError(Exception):
    """The reason why a model stays as it is."""


class Hardware:
    """The sides that a model, or half of a paired one, can have by its prices and targets.

    Whether the rules of the stack accept a side takes milliseconds, and there are hundreds of
    sides: only those that no accepted one beats are checked.
    """

    def __init__(self, document: Any, asked: Asked, found: Iterable[Side]) -> None:
        """Keep the sides of which at least one is accepted.

        Args:
            document: Document of the stack, as in its file.
            asked: Model.
            found: Its sides.

        Raises:
            _KeptError: None is accepted.
        """
        self.sides = tuple(found)
        self._document, self._asked = document, asked
        self._problems: dict[tuple[Candidate, bool, tuple[str, ...]], InputError | None] = {}
        if not any(self._problem(side) is None for side in self.sides):
            problem = next(iter(self._problems.values()), None)
            why = "" if problem is None else f"; {problem}"
            raise _KeptError(f"no priced hardware in all of its regions meets its targets{why}")

    def best(self, limits: Mapping[Key, int]) -> list[Side]:
        """Return the accepted sides that no other accepted side beats."""
        left = self.sides
        while True:
            best = best_sides(left, limits)
            refused = {id(side) for side in best if self._problem(side) is not None}
            if not refused:
                return best
            left = tuple(side for side in left if id(side) not in refused)

    def _problem(self, side: Side) -> InputError | None:
        made = side.proposal
        key = (made.choices[0].candidate, made.roles is not None, made.ladder)
        if key not in self._problems:
            placed = placement_for(made)
            placed = replace(placed, replicas=max(1, placed.replicas))  # warm replicas may be 0
            self._problems[key] = placement_problem(self._document, self._asked.name, placed)
        return self._problems[key]


@dataclass(frozen=True)
class Planned:
    """A model with the hardware that it can have."""

    asked: Asked
    weight: float
    """Answer tokens per second."""
    hardware: Hardware
    standby: Hardware | None
    """GPUs that replace the TPUs; None unless paired."""


@dataclass(frozen=True)
class Requirements:
    """What to choose for, and what stays as it is."""

    planned: tuple[Planned, ...]
    kept: Mapping[str, str]
    """Reasons by model that stays as it is."""
    loads: Mapping[str, Load]


def requirements_of(
    resolved: Plan,
    document: Any,
    bill: Bill,
    loads: Mapping[str, Load],
    usual: Load,
    utilisation: float,
) -> Requirements:
    """Return the models of a stack, with the hardware that each can have.

    Args:
        resolved: Stack.
        document: Document of the stack, as in its file.
        bill: Its bill, for the throughput of models without a load.
        loads: Traffic by model. Without an entry, what the model's maximum replicas serve.
        usual: Lengths of requests for models without a load; its rate is not used.
        utilisation: Target utilization of replicas.
    """
    traffic = Traffic(usual.given, usual.made, utilisation=utilisation)
    serve = _throughput(resolved, bill, traffic)
    found: list[Planned] = []
    kept: dict[str, str] = {}
    used: dict[str, Load] = {}
    for name, every in resolved.models.items():
        load = loads.get(name) or (
            replace(usual, rate=serve[name] / usual.made) if serve.get(name) else None
        )
        try:
            _check(resolved, name, every[0])
            if load is None:
                raise _KeptError("its traffic is not known: set --load")
            found.append(_planned(resolved, document, every, load, utilisation))
            used[name] = load
        except _KeptError as reason:
            kept[name] = str(reason)
        except InputError as error:
            kept[name] = str(error)
    return Requirements(tuple(found), kept, used)


def _throughput(resolved: Plan, bill: Bill, traffic: Traffic) -> dict[str, float]:
    """Return the answer tokens per second of each model's maximum replicas within its targets."""
    found: dict[str, float] = {}
    for line, cost in zip(bill.lines, unit_costs(resolved, bill, traffic), strict=True):
        speed = cost.speed.per_second
        if line.served.role == "serve" and speed is not None and cost.speed.keeps_promise:
            each = speed.value * traffic.utilisation * line.served.replicas.max
            found[line.served.model] = found.get(line.served.model, 0.0) + each
    return found


def _check(resolved: Plan, name: str, one: ServedModel) -> None:
    """Raise if a model stays as it is, whatever its traffic.

    Raises:
        _KeptError: The reason.
    """
    model, platform = one.settings, resolved.platform
    if one.version is not None:
        raise _KeptError(f"it is the canary of {one.version.of}")
    if model.task is not Task.GENERATE:
        raise _KeptError(f"its task is {model.task.value}")
    form = platform.form_of(model)
    if form not in (Form.SINGLE, Form.PAIRED):
        raise _KeptError(f"its form is {form.value}")
    for setting in _OF_HARDWARE:
        if getattr(model, setting) is not None:
            raise _KeptError(f"it has {setting}")
    capacity = platform.capacity[model.capacity]
    if capacity.node_pools is not None:
        raise _KeptError("its capacity has node_pools, which are sized for its hardware")
    if any(rung.provisioning.value == "calendar" for rung in capacity.rungs):
        raise _KeptError("its capacity has a calendar reservation")
    if find_model(model.weights, name) is None:
        raise _KeptError("its architecture is not known")


def _planned(
    resolved: Plan, document: Any, every: Sequence[ServedModel], load: Load, utilisation: float
) -> Planned:
    """Return a model with its hardware.

    Raises:
        _KeptError: No hardware serves it.
        InputError: The planner cannot estimate it.
    """
    model, name = every[0].settings, every[0].name
    if load.given + load.made > model.context:
        tokens = load.given + load.made
        raise _KeptError(f"its context of {model.context} tokens is shorter than {tokens}")
    regions = {one.region: resolved.regions[one.region].settings for one in every}
    is_paired = resolved.platform.form_of(model) is Form.PAIRED
    weight = load.rate * load.made
    asked = Asked(
        name,
        tuple(every),
        _question(name, model, load, tuple(regions), utilisation),
        is_paired,
        regions,
    )
    if not is_paired:
        return Planned(asked, weight, Hardware(document, asked, sides(asked, None)), None)
    first = Hardware(_half(document, name, "tpu"), asked, sides(asked, "tpu"))
    # replicas that wait for a failure must be there when it happens
    always_on = [one for one in sides(asked, "gpu") if not one.proposal.temporary_share]
    second = Hardware(_half(document, name, "gpu"), asked, always_on)
    return Planned(asked, weight, first, second)


def _half(document: Any, name: str, kind: str) -> Any:
    """Return the document of a stack in which half of a paired model can be on its own."""
    model = {key: value for key, value in document["models"][name].items() if key != "form"}
    if kind == "gpu":  # a buffer is for the TPUs
        replicas = model["replicas"].items()
        model["replicas"] = {key: value for key, value in replicas if key != "buffer"}
    return {**document, "models": {name: model}}


def _question(
    name: str, model: Model, load: Load, regions: tuple[str, ...], utilisation: float
) -> Question:
    architecture = find_model(model.weights, name)
    if architecture is None:
        raise _KeptError("its architecture is not known")
    question = Question(
        architecture,
        load.rate / len(regions),
        load.given,
        load.made,
        regions=regions,
        provisioning=FOR_SERVING,
        bits=(model.size.bits,),
        utilisation=utilisation,
        context=model.context,
        engine=model.engine,
        adapters=_adapters(model),
        kv_bits=int(loaded_model(stack_intent(name, model, {})).kv_bits),
    )
    slo = model.slo
    if slo is None:
        return question
    return replace(
        question,
        ttft_p95_ms=slo.ttft_p95_ms or question.ttft_p95_ms,
        tpot_p95_ms=slo.tpot_p95_ms or question.tpot_p95_ms,
    )


def _adapters(model: Model) -> int:
    """Return the most different adapters in a batch of a model, for which its engine has slots."""
    live, given = model.live_adapters, slots(None, len(model.adapters), 1).in_batch
    return max(given, 0 if live is None else live.slots)


def limited_requirements(
    found: Requirements, limits: Mapping[Key, int]
) -> tuple[Requirement[Proposal], ...]:
    """Return each model with its offers, without those that another one beats.

    Args:
        found: Models with their hardware.
        limits: Limits of quotas.
    """
    return tuple(_requirement(one, limits) for one in found.planned)


def _requirement(one: Planned, limits: Mapping[Key, int]) -> Requirement[Proposal]:
    first = one.hardware.best(limits)
    second = [None] if one.standby is None else one.standby.best(limits)
    offers = tuple(offer_of(one.asked, *pair) for pair in product(first, second))
    return Requirement(one.asked.name, one.weight, offers)


def quotas_of(found: Requirements) -> dict[Key, Need]:
    """Return the quotas of Google Cloud that some offer uses, as needs of nothing yet."""
    needs: dict[Key, Need] = {}
    every = (
        each for one in found.planned for each in (one.hardware, one.standby) if each is not None
    )
    for side in (side for each in every for side in each.sides):
        made = side.proposal
        word = made.choices[0].candidate.form.word
        for key in side.each.keys() | {key for key, _ in side.spare}:
            need = None if key in needs else _need(key, word, made.ladder)
            if need is not None:
                needs[key] = need
    return needs


def _need(key: Key, word: str, ways: Collection[str]) -> Need | None:
    region, label = key
    every = (accelerator_metric(word, way) for way in ways)
    counted = next((one for one in every if one is not None and one.label == label), None)
    if counted is not None:
        return Need(counted, region, "accelerator", (), word, tuple(ways))
    if label not in metric_names():
        return None  # a limit of the stack, not of Google Cloud
    return Need(metric(label), region, "accelerator" if region is None else "machine", ())
