"""The cost of a million tokens, a thousand images or a thousand videos on a rung of a stack.

A replica is assumed to work at a share of its maximum throughput within the model's latency SLO, as
estimated by the planner, or of its absolute maximum if it cannot meet the SLO. The uncertainty is
the planner's, for speed. If the planner has no estimate, a reason takes the place of the number.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from gke_inference.catalogue.accelerators import accelerator as offered
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.rungs import Rung
from gke_inference.intent.expert_settings import ALL2ALL
from gke_inference.sizing.architectures import Architecture
from gke_inference.sizing.image_memory import pixels_of
from gke_inference.sizing.memory import Loaded, expert_part, room, split
from gke_inference.sizing.shapes import ModelShape, shape
from planner.amount import NOTHING, Amount, AmountRange
from planner.choice.candidates import Candidate, Form
from planner.choice.question import NO_LIMIT_MS, Estimate, Question, operating_points_of
from planner.choice.served import BUFFER, PREFILL
from planner.speed.image_speed import seconds_of, work

MILLION_TOKENS = "million output tokens"
MILLION_INPUT = "million input tokens"
THOUSAND_PICTURES = "thousand images"
THOUSAND_VIDEOS = "thousand videos"
MILLION_PREDICTIONS = "million predictions"
SIZES = {
    MILLION_TOKENS: 1e6,
    MILLION_INPUT: 1e6,
    THOUSAND_PICTURES: 1e3,
    THOUSAND_VIDEOS: 1e3,
    MILLION_PREDICTIONS: 1e6,
}
"""Number of tokens, images or videos per unit."""
TOKEN_UNITS = frozenset({MILLION_TOKENS, MILLION_INPUT})
_NOTHING = AmountRange(NOTHING, NOTHING, NOTHING)


@dataclass(frozen=True)
class Traffic:
    """Assumed requests for what a stack does not specify; printed with the result."""

    given: int = 1000
    """Tokens per prompt."""
    made: int = 200
    """Tokens per answer."""
    prefix_share: float = 0.0
    """Fraction of a prompt that is a prefix of earlier prompts."""
    utilisation: float = 0.7
    """Average throughput of a replica as a fraction of its maximum."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            InputError: A number is out of range.
        """
        for name, value in (("input", self.given), ("output", self.made)):
            if value < 1:
                raise InputError(name, "must be 1 or more", value)
        if not 0 <= self.prefix_share < 1:
            raise InputError("prefix_share", "must be at least 0 and below 1", self.prefix_share)
        if not 0 < self.utilisation <= 1:
            raise InputError("utilisation", "must be above 0 and at most 1", self.utilisation)


@dataclass(frozen=True)
class Speed:
    """Maximum throughput of a replica within the SLO, or why it is unknown."""

    unit: str
    """Unit: a key of `SIZES`."""
    per_second: Estimate | None
    """Units per second: answer tokens, prompt tokens for embeddings, images or videos."""
    basis: str
    """Basis of the number, or the reason why there is none."""
    keeps_promise: bool = True
    """Whether some batch meets the latency SLO; if none does, the number does not meet it."""


@dataclass(frozen=True)
class UnitCost:
    """Unit cost of a model, or of one of its roles, in a region."""

    model: str
    region: str
    role: str
    rung: str
    """Rung of the price and the speed; empty if no rung has a price."""
    speed: Speed
    utilisation: float
    usd_per_replica_hour: Amount | None
    """Price of that rung; `missing` lists the earlier rungs without a price."""
    replicas: float
    """Expected number of replicas, which is the weight of this line."""
    batch: Speed | None = None
    """Maximum throughput without latency targets, for batch traffic; None if it has none."""
    further: Mapping[str, Speed] = field(default_factory=dict[str, Speed])
    """Throughput of each further image model that these replicas serve, by name. A chip generates
    with one model at a time, so each is the maximum of a replica that has no other requests, or of
    the model's own chips."""
    shares: Mapping[str, float] = field(default_factory=dict[str, float])
    """Share of the chips of these replicas that a model has for itself, and so of their price, by
    name. Models share all chips if there are none."""

    @property
    def of_further(self) -> "tuple[UnitCost, ...]":
        """Unit costs of the further image models."""
        return tuple(
            replace(self, model=name, speed=speed, further={})
            for name, speed in self.further.items()
        )

    @property
    def usd_per_hour(self) -> Amount | None:
        """Price of the chips of a replica that the model runs on; None if it is unknown."""
        price = self.usd_per_replica_hour
        return None if price is None else price * self.shares.get(self.model, 1.0)

    @property
    def usd_batch(self) -> AmountRange | None:
        """Dollars per unit of batch traffic, on replicas that are always full."""
        if self.batch is None:
            return None
        return replace(self, speed=self.batch, utilisation=1.0, batch=None).usd

    @property
    def usd(self) -> AmountRange | None:
        """Dollars per unit; None if the speed or the price is unknown."""
        speed, price = self.speed.per_second, self.usd_per_hour
        if speed is None or price is None:
            return None
        each = price / (3600 * self.utilisation / SIZES[self.speed.unit])
        return AmountRange(each / speed.value, each / speed.high, each / speed.low)

    @property
    def units_per_hour(self) -> Estimate | None:
        """Units per hour from the expected replicas."""
        speed = self.speed.per_second
        if speed is None:
            return None
        many = self.replicas * 3600 * self.utilisation / SIZES[self.speed.unit]
        return Estimate(many * speed.value, many * speed.low, many * speed.high)


def blended(costs: Iterable[UnitCost]) -> AmountRange | None:
    """Return dollars per unit over several lines, weighted by units; None if one is unknown.

    The ends assume that all lines are off in the same direction, as errors of a model are. The cost
    of replicas that compute prompts is added to that of the replicas that answer in their region,
    and that of nodes that are kept empty to all lines.
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
        if one.role == BUFFER:
            if one.usd_per_replica_hour is None:
                return None
            kept = one.usd_per_replica_hour * one.replicas
            usd, least, most = usd + kept, least + kept, most + kept
            continue
        units, each = one.units_per_hour, one.usd_per_hour
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
    """Traits of a stack's model that determine its speed."""

    architecture: Architecture
    parameters_billion: float
    bits: int
    """Bits of a weight as served."""
    context: int
    """Longest sequence, in tokens."""
    engine: str
    """Engine, in the user's word."""
    tensor: int | None = None
    """Devices that one copy is split over; None for all devices of a replica."""
    ttft_p95_ms: float | None = None
    """Latency objectives of the stack; None for the planner's own."""
    tpot_p95_ms: float | None = None
    kv_bits: float = 16
    """Bits of a number in the KV cache."""
    has_experts: bool = False
    """Whether its experts are spread over all devices of a replica."""
    redundant: int = 0
    """Additional copies of experts."""
    backend: str = ALL2ALL[None].value
    """All-to-all backend of expert parallelism."""
    speculative: tuple[str, int] | None = None
    """Method of speculative decoding whose speed is modeled, and the draft tokens of a step."""


def token_speed(asked: Asked, rung: Rung, traffic: Traffic) -> Speed:
    """Return the maximum answer tokens per second of a replica on a rung."""
    try:
        question = question_of(asked, traffic)
    except ValueError as error:
        return Speed(MILLION_TOKENS, None, str(error))
    said = requests_of(traffic)
    return speed_of(MILLION_TOKENS, traffic.made, said, asked, question, candidate_of(asked, rung))


def batch_speed(asked: Asked, rung: Rung, traffic: Traffic) -> Speed:
    """Return the maximum answer tokens per second of a replica without latency targets."""
    free = replace(asked, ttft_p95_ms=NO_LIMIT_MS, tpot_p95_ms=NO_LIMIT_MS)
    return token_speed(free, rung, traffic)


def requests_of(traffic: Traffic) -> str:
    """Return the requests as text."""
    return f"{traffic.given} tokens in ({traffic.prefix_share:.0%} shared), {traffic.made} out"


@lru_cache(maxsize=4096)  # a stack asks for one replica several times, its teams and batches too
def speed_of(
    unit: str, each: float, said: str, asked: Asked, question: Question, one: Candidate
) -> Speed:
    """Return the maximum throughput of a replica within the latencies of a question.

    Args:
        unit: Key of `SIZES`.
        each: Tokens that a request counts.
        said: Description of the requests.
        asked: Model.
        question: Question for the planner; its rate is not used.
        one: Replica.
    """
    if (problem := one.room.problem) is not None:
        return Speed(unit, None, f"it {problem}")
    found = operating_points_of(question, [one])
    keeps = bool(found.keeps[0])
    most = float(found.most_rate[0]) * one.form.copies * each
    spread = float(found.spread[0])
    basis = f"{said}; {promise(asked, question)}{'' if keeps else '; no batch keeps it'})"
    return Speed(unit, Estimate(most, most / spread, most * spread), basis, keeps)


def promise(asked: Asked, question: Question) -> str:
    """Return the latencies to keep, and which of them the stack promises; leaves a bracket open."""
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
    """Return the question for the planner; its rate is not used, only the maximum.

    Raises:
        ValueError: A request is longer than the model's context.
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
        speculative=asked.speculative,
    )
    return replace(
        question,
        ttft_p95_ms=question.ttft_p95_ms if asked.ttft_p95_ms is None else asked.ttft_p95_ms,
        tpot_p95_ms=question.tpot_p95_ms if asked.tpot_p95_ms is None else asked.tpot_p95_ms,
    )


def candidate_of(asked: Asked, rung: Rung) -> Candidate:
    """Return the replica of a rung, with the model as the stack serves it."""
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
        rung.network if stages > 1 else None,
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
    if asked.has_experts:
        return _of_experts(asked, rung, load, served)
    held = room(load, rung.accelerator, tensor=tensor, stages=stages)
    return Candidate(form, served, held, asked.kv_bits)


def _of_experts(asked: Asked, rung: Rung, load: Loaded, served: ModelShape) -> Candidate:
    """Return the replica of a rung over whose devices the experts are spread."""
    per_chip = offered(rung.accelerator).devices_per_chip
    form = Form(
        rung.accelerator,
        rung.machine_type,
        rung.hosts,
        rung.chips_per_node,
        rung.topology,
        rung.devices // per_chip,
        1,
        1,
        asked.bits,
        rung.network,
        experts=True,
    )
    part = expert_part(load, rung.devices, 1, asked.redundant)
    held = room(part, rung.accelerator, tensor=1)
    return Candidate(form, served, held, asked.kv_bits, asked.backend)


def diffusion_speed(
    architecture: Architecture,
    rung: Rung,
    *,
    steps: int | None,
    size: str = "1024x1024",
    frames: int = 1,
    share: float = 1.0,
) -> Speed:
    """Return the images or videos per second of a replica; each chip generates independently.

    Args:
        architecture: Model of images or videos.
        rung: Rung of the replica.
        steps: Denoising steps of each; None for the model's default.
        size: Size in pixels, such as `768x1344`.
        frames: Frames of a video; 1 for an image.
        share: Share of the replica's chips that hold the model.

    Raises:
        ValueError: There are no steps.
    """
    taken = architecture.steps if steps is None else steps
    if taken < 1:
        raise InputError("steps", "must be 1 or more", taken)
    seconds, doubt, source = seconds_of(architecture, rung.accelerator, taken)
    rate = rung.chips * share / (seconds * work(architecture, pixels_of(size), frames))
    length = f", {frames} frames" if architecture.is_video else ""
    return Speed(
        THOUSAND_VIDEOS if architecture.is_video else THOUSAND_PICTURES,
        Estimate(rate, rate / doubt, rate * doubt),
        f"{size}{length} in {taken} steps; {source}",
    )
