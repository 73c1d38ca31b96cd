"""What a million tokens, or a thousand pictures, cost on a rung of a stack.

A replica is taken to work at a share of what the planner says it serves at most within the model's
latency promise, or at all where it keeps none; the uncertainty is the planner's own, of speed. What
the planner cannot estimate has a reason in place of a number.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from gke_inference.catalogue.accelerators import accelerator as offered
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.rungs import Rung
from gke_inference.sizing.architectures import Architecture
from gke_inference.sizing.memory import Loaded, room, split
from gke_inference.sizing.shapes import shape
from planner.amount import NOTHING, Amount, AmountRange
from planner.choice.candidates import Candidate, Form
from planner.choice.image_plan import seconds_of
from planner.choice.plan import Estimate, Question, operation
from planner.unit_cost.image_speed import REFERENCE_PIXELS

MILLION_TOKENS = "million output tokens"
MILLION_INPUT = "million input tokens"
THOUSAND_PICTURES = "thousand pictures"
SIZES = {MILLION_TOKENS: 1e6, MILLION_INPUT: 1e6, THOUSAND_PICTURES: 1e3}
"""How many tokens or pictures a unit has."""
PREFILL = "prefill"
"""Role of replicas that compute prompts for others, as `planner.choice.cost.Served` has it."""
NO_LIMIT_MS = 1e9
"""Of a latency that is no matter."""
_NOTHING = AmountRange(NOTHING, NOTHING, NOTHING)


@dataclass(frozen=True)
class Traffic:
    """What requests are taken to be, where a stack does not say. Assumed, and printed."""

    given: int = 1000
    """Tokens of a prompt."""
    made: int = 200
    """Tokens of an answer."""
    prefix_share: float = 0.0
    """Part of a prompt that earlier prompts began with, too."""
    utilisation: float = 0.7
    """Part of what a replica serves at most that it serves on average."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense.

        Raises:
            InputError: a number is out of range.
        """
        for field, value in (("input", self.given), ("output", self.made)):
            if value < 1:
                raise InputError(field, "must be 1 or more", value)
        if not 0 <= self.prefix_share < 1:
            raise InputError("prefix_share", "must be 0 to below 1", self.prefix_share)
        if not 0 < self.utilisation <= 1:
            raise InputError("utilisation", "must be above 0 to 1", self.utilisation)


@dataclass(frozen=True)
class Speed:
    """What one replica does at most within the promise, or why nobody can say."""

    unit: str
    """A key of `SIZES`."""
    per_second: Estimate | None
    """Tokens of answers or, of an embedding, of prompts; or pictures."""
    basis: str
    """What the number rests on, or why there is none."""
    keeps_promise: bool = True
    """Whether some batch keeps the latency promise; the number is beyond it where none does."""


@dataclass(frozen=True)
class UnitCost:
    """What a unit costs where a model, or one role of it, runs."""

    model: str
    region: str
    role: str
    rung: str
    """That the price and the speed are of; empty where no rung has a price."""
    speed: Speed
    utilisation: float
    usd_per_replica_hour: Amount | None
    """It misses the rungs without a price before the one that it is of."""
    replicas: float
    """Expected ones: the weight of this line beside others."""

    @property
    def usd(self) -> AmountRange | None:
        """Dollars a unit; None where speed or price are not known."""
        speed, price = self.speed.per_second, self.usd_per_replica_hour
        if speed is None or price is None:
            return None
        each = price / (3600 * self.utilisation / SIZES[self.speed.unit])
        return AmountRange(each / speed.value, each / speed.high, each / speed.low)

    @property
    def units_per_hour(self) -> Estimate | None:
        """Units that the expected replicas make in an hour."""
        speed = self.speed.per_second
        if speed is None:
            return None
        many = self.replicas * 3600 * self.utilisation / SIZES[self.speed.unit]
        return Estimate(many * speed.value, many * speed.low, many * speed.high)


def blended(costs: Iterable[UnitCost]) -> AmountRange | None:
    """Return dollars a unit over several lines, by the units each makes; None where one is unknown.

    The ends are those of all lines being off in the same direction, as errors of a model are. What
    replicas that compute prompts cost is added to what those that answer cost in their region.
    """
    every = list(costs)
    if not every or len({one.speed.unit for one in every}) > 1:
        return None
    prompts = {one.region: one for one in every if one.role == PREFILL}
    usd, least, most = NOTHING, NOTHING, NOTHING
    made, low, high = 0.0, 0.0, 0.0
    for one in every:
        if one.role == PREFILL:
            continue
        units, each = one.units_per_hour, one.usd_per_replica_hour
        beside = prompts[one.region].usd if one.region in prompts else _NOTHING
        if units is None or each is None or beside is None:
            return None
        paid = each * one.replicas
        usd += paid + beside.value * units.value
        least += paid + beside.low * units.high
        most += paid + beside.high * units.low
        made, low, high = made + units.value, low + units.low, high + units.high
    if not made:
        return None
    return AmountRange(usd / made, least / high, most / low)


@dataclass(frozen=True)
class Asked:
    """A model of a stack, as far as its speed goes."""

    architecture: Architecture
    parameters_billion: float
    bits: int
    """Of a weight as served."""
    context: int
    """Longest sequence, in tokens."""
    engine: str
    """In the user's word."""
    tensor: int | None = None
    """Devices that one copy is split over; None: all of a replica."""
    ttft_p95_ms: float | None = None
    """Promised; None: the planner's own."""
    tpot_p95_ms: float | None = None
    kv_bits: float = 16
    """Of a number in the KV cache."""


def token_speed(asked: Asked, rung: Rung, traffic: Traffic) -> Speed:
    """Return the tokens of answers a second that a replica on a rung makes at most."""
    try:
        question = question_of(asked, traffic)
    except ValueError as error:
        return Speed(MILLION_TOKENS, None, str(error))
    said = requests_of(traffic)
    return speed_of(MILLION_TOKENS, traffic.made, said, asked, question, candidate_of(asked, rung))


def requests_of(traffic: Traffic) -> str:
    """Return what requests are, in words."""
    return f"{traffic.given} tokens in ({traffic.prefix_share:.0%} shared), {traffic.made} out"


def speed_of(
    unit: str, each: float, said: str, asked: Asked, question: Question, one: Candidate
) -> Speed:
    """Return what a replica serves at most within the latencies of a question.

    Args:
        unit: a key of `SIZES`.
        each: tokens that a request counts.
        said: what requests are.
        asked: the model.
        question: to the planner; its rate does not matter.
        one: the replica.
    """
    if (problem := one.room.problem) is not None:
        return Speed(unit, None, f"it {problem}")
    found = operation(question, [one])
    keeps = bool(found.keeps[0])
    most = float(found.most_rate[0]) * one.form.copies * each
    spread = float(found.spread[0])
    basis = f"{said}; {promise(asked, question)}{'' if keeps else '; no batch keeps it'})"
    return Speed(unit, Estimate(most, most / spread, most * spread), basis, keeps)


def promise(asked: Asked, question: Question) -> str:
    """Return the latencies to keep, and which the stack promises; a bracket is left open."""
    kept = [
        (f"{limit:g} ms {words}", own is not None)
        for limit, words, own in (
            (question.ttft_p95_ms, "to the first token", asked.ttft_p95_ms),
            (question.tpot_p95_ms, "between tokens", asked.tpot_p95_ms),
        )
        if limit < NO_LIMIT_MS
    ]
    promised = [has for _, has in kept]
    if any(promised) and not all(promised):
        said = f"{'the first' if promised[0] else 'the second'} promised, the other assumed"
    else:
        said = "promised" if all(promised) else "assumed, no SLO in the stack"
    plural = "s" if len(kept) > 1 else ""
    return f"{' and '.join(text for text, _ in kept)}, 95th percentile{plural} ({said}"


def question_of(asked: Asked, traffic: Traffic) -> Question:
    """Return the planner's question; its rate does not matter, as only the most is asked for.

    Raises:
        ValueError: a request is longer than the model's context.
    """
    if traffic.given + traffic.made > asked.context:
        most = f"the {asked.context} tokens of its context together"
        asks = traffic.given + traffic.made
        raise InputError("input and output", f"must be at most {most}", asks)
    question = Question(
        asked.architecture,
        1.0,
        traffic.given,
        traffic.made,
        prefix_share=traffic.prefix_share,
        utilisation=traffic.utilisation,
        context=asked.context,
        engine=asked.engine,
    )
    return replace(
        question,
        ttft_p95_ms=question.ttft_p95_ms if asked.ttft_p95_ms is None else asked.ttft_p95_ms,
        tpot_p95_ms=question.tpot_p95_ms if asked.tpot_p95_ms is None else asked.tpot_p95_ms,
    )


def candidate_of(asked: Asked, rung: Rung) -> Candidate:
    """Return the replica that a rung is, with the model as the stack serves it."""
    per_chip = offered(rung.accelerator).devices_per_chip
    tensor, stages = split(rung, asked.tensor)
    form = Form(
        rung.accelerator,
        rung.machine_type,
        rung.hosts,
        rung.chips_per_node,
        rung.topology,
        max(1, tensor // per_chip),
        stages,
        rung.devices // stages // tensor,
        asked.bits,
    )
    known = shape(asked.architecture)
    scale = asked.parameters_billion / known.parameters_billion
    served = replace(
        known,
        bits=asked.bits,
        parameters_billion=asked.parameters_billion,
        active_billion=known.active_billion * scale,
    )
    context = min(asked.context, asked.architecture.context or asked.context)
    load = Loaded(asked.parameters_billion, asked.bits, context, served, asked.kv_bits)
    held = room(load, rung.accelerator, tensor=tensor, stages=stages)
    return Candidate(form, served, held, asked.kv_bits)


def picture_speed(
    architecture: Architecture, rung: Rung, *, steps: int | None, size: str = "1024x1024"
) -> Speed:
    """Return the pictures a second of a replica on a rung: every chip draws by itself.

    Args:
        architecture: a model that draws.
        rung: where it runs.
        steps: of a picture; None: the model's own.
        size: in pixels, such as `768x1344`; time goes with the pixels.

    Raises:
        ValueError: there are no steps.
    """
    taken = architecture.steps if steps is None else steps
    if taken < 1:
        raise InputError("steps", "must be 1 or more", taken)
    seconds, doubt, source = seconds_of(architecture, rung.accelerator, taken)
    pixels = math.prod(int(side) for side in size.split("x"))
    rate = rung.chips / (seconds * pixels / REFERENCE_PIXELS)
    return Speed(
        THOUSAND_PICTURES,
        Estimate(rate, rate / doubt, rate * doubt),
        f"{size} in {taken} steps; {source}",
    )
