"""Ranks the hardware for a model by its traffic and SLO."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from gke_inference.catalogue.accelerators import PROVISIONING, is_sold, regions_of
from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.prices import Price
from gke_inference.sizing.architectures import Architecture, known
from gke_inference.sizing.memory import kv_cache_gib
from planner.choice.availability import notes
from planner.choice.candidates import Candidate, Form, Refused, candidates
from planner.choice.coldstart import ColdStart, cold_start
from planner.choice.cost import machine_price
from planner.fit.tables import table
from planner.speed.constants import reached_of
from planner.speed.correction import Traits, gather, traits
from planner.speed.roofline_step import Array, Work, stack, work
from planner.speed.speculation import METHODS, MOST_TOKENS, Speculation, speculation
from planner.speed.throughput import OperatingPoints, curves, operating_points

FOR_SERVING = tuple(provisioning for provisioning in PROVISIONING if provisioning != "calendar")
"""Provisioning that suits a server; a calendar reservation has an end date."""
TEMPORARY = ("spot", "flex-start")
"""Provisioning whose nodes end: taken back at 30 s notice, or after seven days."""
NO_LIMIT_MS = 1e9
"""Latency limit that has no effect."""
_BITS = (4, 8, 16, 32)
_DECODED = ("dense", "moe")
"""Kinds of models that generate tokens one after the other."""
KV_BITS = (8, 16)
MOST_ADAPTERS = 64
"""Most different adapters in one batch, as `live_adapters.slots` of a stack."""


@dataclass(frozen=True)
class Question:
    """Model, traffic and SLO to plan for."""

    model: Architecture
    rate: float
    """Peak requests per second."""
    given: int
    """Tokens per prompt."""
    made: int
    """Tokens per answer."""
    ttft_p95_ms: float = 1000.0
    tpot_p95_ms: float = 50.0
    prefix_share: float = 0.0
    """Fraction of a prompt that is a prefix of earlier prompts."""
    regions: tuple[str, ...] = ()
    """Regions to consider; empty for all with a price."""
    provisioning: tuple[str, ...] = ()
    """Provisioning to consider; empty for all that suit serving."""
    accelerators: tuple[str, ...] = ()
    """Accelerators, in the user's words; empty for all."""
    bits: tuple[int, ...] = ()
    """Precisions of the weights; empty for the checkpoint's and 8."""
    utilisation: float = 0.7
    """Target utilization of the replicas at peak."""
    context: int = 0
    """Longest sequence, in tokens; 0 for 1.5 times the prompt and the answer."""
    engine: str = "vllm"
    """Engine, in the user's word; published measurements determine its speed."""
    adapters: int = 0
    """Different LoRA adapters in one batch."""
    kv_bits: int = 16
    """Bits of a number in the KV cache."""
    speculative: tuple[str, int] | None = None
    """Method of speculative decoding, and the draft tokens of a step."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            InputError: A number is out of range.
        """
        if unknown := sorted(set(self.bits) - set(_BITS)):
            raise InputError("bits", f"must be one of {', '.join(map(str, _BITS))}", unknown[0])
        positive = ("rate", "given", "made", "ttft_p95_ms", "tpot_p95_ms")
        for field in positive:
            value = getattr(self, field)
            if not 0 < value < math.inf:
                raise InputError(field, "must be a number above 0", Bare(f"{value:g}"))
        if self.kv_bits not in KV_BITS:
            rule = f"must be one of {', '.join(map(str, KV_BITS))}"
            raise InputError("kv_bits", rule, self.kv_bits)
        if not 0 <= self.adapters <= MOST_ADAPTERS:
            raise InputError(
                "adapters", f"must be 0 to {MOST_ADAPTERS}, the most of one batch", self.adapters
            )
        if self.speculative is not None:
            self._check_speculative(*self.speculative)
        if not 0 <= self.prefix_share < 1:
            raise InputError("prefix_share", "must be at least 0 and below 1", self.prefix_share)
        if not 0 < self.utilisation <= 1:
            raise InputError("utilisation", "must be above 0 and at most 1", self.utilisation)
        if self.context and self.context < self.given + self.made:
            least = f"the {self.given + self.made} tokens of input and output together"
            raise InputError("context", f"must be at least {least}, or 0", self.context)
        if 0 < self.model.context < self.given + self.made:
            most = f"the {self.model.context} tokens of {self.model.name} together"
            raise InputError("input and output", f"must be at most {most}", self.given + self.made)

    def _check_speculative(self, method: str, tokens: int) -> None:
        if method not in METHODS:
            raise InputError("speculative", f"must be one of {', '.join(METHODS)}", method)
        if not 1 <= tokens <= MOST_TOKENS:
            raise InputError("speculative", f"must have 1 to {MOST_TOKENS} tokens", tokens)
        if self.model.kind not in _DECODED:
            of_kind = Bare(f"it with the {self.model.kind} model {self.model.name!r}")
            raise InputError("speculative", "must not be set: nothing is decoded", of_kind)
        if method == "mtp" and not self.model.mtp_layers:
            names = ", ".join(one.name for one in known() if one.mtp_layers)
            rule = f"must not be mtp for {self.model.name}, which has no MTP layers"
            rule += f"; models with them: {names}"
            raise InputError("speculative", rule, f"{method}:{tokens}")

    @property
    def guess(self) -> Speculation | None:
        """What speculative decoding does for the model, or None without it."""
        if self.speculative is None:
            return None
        return speculation(*self.speculative, self.model.name)

    @property
    def longest(self) -> int:
        """Longest sequence to reserve memory for, in tokens."""
        wanted = self.context or int(1.5 * (self.given + self.made))
        return min(wanted, self.model.context) if self.model.context else wanted


@dataclass(frozen=True)
class Estimate:
    """An estimate with its 80 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Choice:
    """A choice of hardware."""

    candidate: Candidate
    provisioning: str
    region: str
    keeps_promise: bool
    replicas: int
    replicas_high: int
    """Replicas at the slow end of the interval."""
    ttft_p95_ms: Estimate
    tpot_p95_ms: Estimate
    tokens_per_second: Estimate
    """Maximum output of one replica within the SLO."""
    utilisation: float
    price: Price | None
    """Hourly price of a replica."""
    usd_per_hour: Estimate | None
    usd_per_million: Estimate | None
    """Dollars per million answer tokens, including their prompts."""
    usd_per_million_tokens: float | None
    """Dollars per million prompt and answer tokens."""
    start: ColdStart
    notes: tuple[str, ...]
    batch: float
    spread: float
    spread_first: float

    @property
    def is_floor(self) -> bool:
        """Whether its nodes stay: Google takes back Spot nodes, and flex-start ones have an end."""
        return self.provisioning not in TEMPORARY

    @property
    def sort_key(self) -> tuple[bool, bool, bool, float]:
        """Sort key: SLO met first, then priced choices, then nodes that stay, then cost."""
        cost = self.usd_per_hour.value if self.usd_per_hour else 0.0
        return (not self.keeps_promise, self.usd_per_hour is None, not self.is_floor, cost)


@dataclass(frozen=True)
class Plan:
    """Result of a plan."""

    question: Question
    choices: tuple[Choice, ...]
    """Choices, the best first."""
    refused: tuple[Refused, ...]


def plan(question: Question) -> Plan:
    """Rank all hardware that can serve a model.

    Raises:
        ValueError: No hardware in the catalog fits the model.
    """
    held, refused = candidates(
        question.model,
        context=question.longest,
        words=question.accelerators,
        bits=question.bits,
        engine=question.engine,
        kv_bits=question.kv_bits,
        adapters=question.adapters,
        speculative=question.speculative[0] if question.speculative else "",
    )
    if not held and not refused and question.speculative is not None:
        rule = f"must be a method of {question.engine} on the hardware to consider"
        raise InputError("speculative", rule, question.speculative[0])
    if not held:
        why = f"{refused[0].form.label}: {refused[0].reason}"
        raise InputError("model", f"must fit on some hardware; {why}")
    found = operating_points_of(question, held)
    choices = [
        _choice(question, one, found, at, provisioning, region)
        for at, one in enumerate(held)
        for region, provisioning in _offers(one.form, question)
    ]
    return Plan(question, tuple(sorted(choices, key=lambda one: one.sort_key)), tuple(refused))


def work_of(question: Question, one: Candidate) -> Work:
    """Return the work of one candidate."""
    return work(
        one.shape,
        one.form.chip,
        tensor=one.form.tensor,
        stages=one.form.stages,
        network=one.form.network or "tcp",
        kv_bits=one.kv_bits,
        given=question.given,
        made=question.made,
        prefix_share=question.prefix_share,
        groups=one.form.devices if one.form.experts else 1,
        adapters=question.adapters,
        backend=one.backend,
        guess=question.guess,
        reached=reached_of(question.engine, one.form.chip.name, one.shape),
    )


def traits_of(question: Question, held: Sequence[Candidate]) -> Traits:
    """Return the traits of candidates for the correction."""
    return gather(
        [
            traits(
                engine=question.engine,
                accelerator=one.form.chip.name,
                batch=1,
                given=question.given,
                made=question.made,
                chips=one.form.tensor * one.form.stages,
                active=one.shape.active_billion,
                total=one.shape.parameters_billion,
                bits=one.shape.bits,
                load="concurrent",
                split=one.form.split_kind,
                hosts="several" if one.form.hosts > 1 and not one.form.topology else "one",
            )
            for one in held
        ]
    )


def sequences(question: Question, one: Candidate) -> float:
    """Return the number of sequences that fit the KV cache of a copy."""
    length = question.given + question.made / 2
    form = one.form
    each = kv_cache_gib(length, one.shape, tensor=form.split, stages=form.stages, bits=one.kv_bits)
    groups = form.devices // form.split
    return one.room.left / each * groups


def operating_points_of(question: Question, held: Sequence[Candidate]) -> OperatingPoints:
    """Return the largest batches within the SLO, and the candidates' throughput at those."""
    wanted = traits_of(question, held)
    every = stack([work_of(question, one) for one in held])
    room = np.array([sequences(question, one) for one in held])
    lines = curves(every, wanted, room)
    return operating_points(
        lines,
        wanted,
        np.array([float(one.form.copies) for one in held]),
        rate=question.rate,
        ttft95=question.ttft_p95_ms / 1e3,
        step95=question.tpot_p95_ms / 1e3,
        utilisation=question.utilisation,
        doubt=_doubts(question, held),
    )


_LINK_DOUBT = {"nvidia-rtx-pro-6000": 1.5}
"""Factor up and down for replicas of several chips whose links nobody has measured with vLLM. G4
has a fabric of its own: TensorRT-LLM's points fit the full rate, and a plain machine with this chip
was 1.25 times slower (LLMServingSim's run of Qwen3-32B on two)."""


def _doubts(question: Question, held: Sequence[Candidate]) -> Array:
    """Return factors that widen the intervals of candidates, beside what is unknown of a model."""
    guess = np.log(question.guess.doubt) if question.guess else 0.0
    links = [
        np.log(_LINK_DOUBT.get(one.form.chip.name, 1.0)) if one.form.tensor > 1 else 0.0
        for one in held
    ]
    return np.exp(np.sqrt(guess**2 + np.array(links) ** 2))


@cache
def _offered(word: str, machine_type: str) -> tuple[tuple[str, str], ...]:
    return tuple(
        (region, provisioning)
        for region in regions_of(word)
        for provisioning in FOR_SERVING
        if is_sold(word, machine_type, region, provisioning)
    )


def _offers(form: Form, question: Question) -> list[tuple[str, str]]:
    return [
        (region, provisioning)
        for region, provisioning in _offered(form.word, form.machine_type)
        if (not question.regions or region in question.regions)
        and (
            provisioning in question.provisioning
            if question.provisioning
            else provisioning != "reservation"
        )
    ]


@cache
def _start(kind: str, weights_gb: float, provisioning: str) -> ColdStart:
    return cold_start(kind, weights_gb, provisioning=provisioning)


def _around(value: float, spread: float) -> Estimate:
    return Estimate(value, value / spread, value * spread)


def _choice(
    question: Question,
    one: Candidate,
    found: OperatingPoints,
    at: int,
    provisioning: str,
    region: str,
) -> Choice:
    form, spread = one.form, float(found.spread[at])
    spread_first = float(found.spread_first[at])
    replicas = int(found.replicas[at])
    exact = float(question.rate / (found.most_rate[at] * form.copies * question.utilisation))
    bound = (max(1, int(np.ceil(exact / spread))), max(1, int(np.ceil(exact * spread))))
    listed = machine_price(form.word, region, provisioning, form.machine_type)
    hour = million = every = None
    if listed is not None:
        each = listed.usd_per_hour * form.hosts
        listed = replace(listed, usd_per_hour=round(each, 5))
        hour = Estimate(replicas * each, bound[0] * each, bound[1] * each)
        per = 1e6 / (question.rate * question.made * 3600)
        million = Estimate(hour.value * per, hour.low * per, hour.high * per)
        every = million.value * question.made / (question.given + question.made)
    most = float(found.most_rate[at]) * form.copies * question.made
    return Choice(
        one, provisioning, region, bool(found.keeps[at]), replicas, bound[1],
        _around(float(found.ttft95[at]) * 1e3, spread_first),
        _around(float(found.step95[at]) * 1e3, spread),
        _around(most, spread), float(found.utilisation[at]), listed, hour, million, every,
        _start(form.chip.kind, one.shape.weights_gb, provisioning),
        _notes(form.word, region, provisioning, listed),
        float(found.batch[at]), spread, spread_first,
    )  # fmt: skip


@cache
def _notes(word: str, region: str, provisioning: str, listed: Price | None) -> tuple[str, ...]:
    """Return notes on availability and price."""
    partial = listed is not None and listed.lacks_host
    return (
        *notes(word, region, provisioning),
        *(["price of the accelerators alone"] if partial else []),
        *(_dated(word, provisioning, listed) if listed is not None else ()),
    )


def _dated(word: str, provisioning: str, listed: Price) -> list[str]:
    """Return how old a price is that moved since, by another source."""
    return [
        f"price of {listed.date}; ${row['usd_per_hour']:.2f} for a {row['per']} on {row['date']} "
        f"({row['source']})"
        for row in table("moved_prices")["moved"]
        if (row["accelerator"], row["provisioning"]) == (word, provisioning)
    ]


LADDER = ("reservation", "on-demand", "flex-start", "spot")
"""The order that google/skills @1af7775 (gke-compute-classes) advises for inference."""


def ladder(one: Choice, choices: Sequence[Choice]) -> list[Choice]:
    """Return the provisioning options of a choice's form in its region, the chosen one first.

    A reservation is paid whether it is used or not, so it precedes even the chosen one. Options
    without a price are excluded, unless chosen.
    """
    alike = [
        each
        for each in choices
        if each.candidate == one.candidate
        and each.region == one.region
        and each.provisioning != one.provisioning
        and each.price is not None
    ]
    ordered = [one, *sorted(alike, key=lambda each: LADDER.index(each.provisioning))]
    return sorted(ordered, key=lambda each: each.provisioning != "reservation")


def best_forms(choices: Sequence[Choice]) -> list[Choice]:
    """Return the cheapest choice of each form and precision, in order."""
    seen: set[tuple[str, str, int]] = set()
    found: list[Choice] = []
    for one in choices:
        form = one.candidate.form
        key = (form.label, form.parallelism, form.bits)
        if key not in seen:
            seen.add(key)
            found.append(one)
    return found
