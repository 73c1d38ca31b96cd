"""From a model, its traffic and its promise to a ranked list of what to run it on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from gke_inference.catalogue.accelerators import PROVISIONING, is_sold, regions_of
from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.prices import Price
from gke_inference.sizing.architectures import Architecture
from gke_inference.sizing.memory import kv_cache_gib
from planner.choice.availability import notes
from planner.choice.candidates import Candidate, Form, Refused, candidates
from planner.choice.coldstart import ColdStart, cold_start
from planner.choice.cost import machine_price
from planner.speed.correction import Traits, correction, gather, traits
from planner.speed.roofline_step import Work, stack, work
from planner.speed.throughput import Operation, curves, operate

FOR_SERVING = tuple(way for way in PROVISIONING if way != "calendar")
"""Ways to buy that suit a server: a calendar reservation ends on a day."""
_BITS = (4, 8, 16, 32)


@dataclass(frozen=True)
class Question:
    """What is to be served."""

    model: Architecture
    rate: float
    """Requests a second at the busiest time."""
    given: int
    """Tokens of a prompt."""
    made: int
    """Tokens of an answer."""
    ttft_p95_ms: float = 1000.0
    tpot_p95_ms: float = 50.0
    prefix_share: float = 0.0
    """Part of a prompt that earlier prompts began with, too."""
    regions: tuple[str, ...] = ()
    """Regions to look in; empty: all that have a price."""
    provisioning: tuple[str, ...] = ()
    """Ways to buy; empty: all that suit serving."""
    accelerators: tuple[str, ...] = ()
    """In the user's words; empty: all."""
    bits: tuple[int, ...] = ()
    """Precisions of the weights; empty: the checkpoint's and 8."""
    utilisation: float = 0.7
    """Part of what the replicas can serve that is used at the busiest time."""
    context: int = 0
    """Longest sequence, in tokens; 0: prompt and answer and half as much again."""
    engine: str = "vllm"
    """In the user's word: what published points of it, or of others, say of its speed."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense.

        Raises:
            InputError: a number is out of range.
        """
        if unknown := sorted(set(self.bits) - set(_BITS)):
            raise InputError("bits", f"must be one of {', '.join(map(str, _BITS))}", unknown[0])
        positive = ("rate", "given", "made", "ttft_p95_ms", "tpot_p95_ms")
        for field in positive:
            value = getattr(self, field)
            if not 0 < value < math.inf:
                raise InputError(field, "must be a number above 0", Bare(f"{value:g}"))
        if not 0 <= self.prefix_share < 1:
            raise InputError("prefix_share", "must be 0 to below 1", self.prefix_share)
        if not 0 < self.utilisation <= 1:
            raise InputError("utilisation", "must be above 0 to 1", self.utilisation)
        if self.context and self.context < self.given + self.made:
            least = f"the {self.given + self.made} tokens of input and output together"
            raise InputError("context", f"must be at least {least}, or 0", self.context)
        if 0 < self.model.context < self.given + self.made:
            most = f"the {self.model.context} tokens of {self.model.name} together"
            raise InputError("input and output", f"must be at most {most}", self.given + self.made)

    @property
    def longest(self) -> int:
        """Longest sequence to have room for, in tokens."""
        wanted = self.context or int(1.5 * (self.given + self.made))
        return min(wanted, self.model.context) if self.model.context else wanted


@dataclass(frozen=True)
class Estimate:
    """A number, and the interval that should hold it in four of five cases."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Choice:
    """One way to serve it."""

    candidate: Candidate
    provisioning: str
    region: str
    keeps_promise: bool
    replicas: int
    replicas_high: int
    """Where the hardware is as slow as the interval allows."""
    ttft_p95_ms: Estimate
    tpot_p95_ms: Estimate
    tokens_per_second: Estimate
    """Output of one replica at most, within the promise."""
    utilisation: float
    price: Price | None
    """Of a replica an hour."""
    usd_per_hour: Estimate | None
    usd_per_million: Estimate | None
    """For a million tokens of answers, prompts included."""
    usd_per_million_tokens: float | None
    """For a million tokens of prompts and answers together."""
    start: ColdStart
    notes: tuple[str, ...]
    batch: float
    spread: float

    @property
    def sort_key(self) -> tuple[bool, bool, float]:
        """Promise kept first, then priced ones, then by cost."""
        cost = self.usd_per_hour.value if self.usd_per_hour else 0.0
        return (not self.keeps_promise, self.usd_per_hour is None, cost)


@dataclass(frozen=True)
class Plan:
    """The answer to a question."""

    question: Question
    choices: tuple[Choice, ...]
    """The best first."""
    refused: tuple[Refused, ...]


def plan(question: Question) -> Plan:
    """Rank everything that could serve a model.

    Raises:
        ValueError: nothing in the catalogue holds the model.
    """
    held, refused = candidates(
        question.model,
        context=question.longest,
        words=question.accelerators,
        bits=question.bits,
        engine=question.engine,
    )
    if not held:
        why = f"{refused[0].form.label}: {refused[0].reason}"
        raise InputError("model", f"must fit on some hardware; {why}")
    found = operation(question, held)
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
        kv_bits=one.kv_bits,
        given=question.given,
        made=question.made,
        prefix_share=question.prefix_share,
    )


def traits_of(question: Question, held: Sequence[Candidate]) -> Traits:
    """Return what candidates are to the correction."""
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
            )
            for one in held
        ]
    )


def sequences(question: Question, one: Candidate) -> float:
    """Return how many sequences of the load the KV cache of a copy holds."""
    length = question.given + question.made / 2
    form = one.form
    each = kv_cache_gib(
        length, one.shape, tensor=form.devices, stages=form.stages, bits=one.kv_bits
    )
    return one.room.left / each


def operation(question: Question, held: Sequence[Candidate]) -> Operation:
    """Return at which batch candidates keep the promise, and what they serve there."""
    wanted = traits_of(question, held)
    every = stack([work_of(question, one) for one in held])
    room = np.array([sequences(question, one) for one in held])
    lines = curves(every, correction(), wanted, room)
    return operate(
        lines,
        correction(),
        wanted,
        np.array([float(one.form.copies) for one in held]),
        rate=question.rate,
        ttft95=question.ttft_p95_ms / 1e3,
        step95=question.tpot_p95_ms / 1e3,
        utilisation=question.utilisation,
    )


@cache
def _offered(word: str, machine_type: str) -> tuple[tuple[str, str], ...]:
    return tuple(
        (region, way)
        for region in regions_of(word)
        for way in FOR_SERVING
        if is_sold(word, machine_type, region, way)
    )


def _offers(form: Form, question: Question) -> list[tuple[str, str]]:
    return [
        (region, way)
        for region, way in _offered(form.word, form.machine_type)
        if (not question.regions or region in question.regions)
        and (way in question.provisioning if question.provisioning else way != "reservation")
    ]


@cache
def _start(kind: str, weights_gb: float, way: str) -> ColdStart:
    return cold_start(kind, weights_gb, provisioning=way)


def _around(value: float, spread: float) -> Estimate:
    return Estimate(value, value / spread, value * spread)


def _choice(
    question: Question, one: Candidate, found: Operation, at: int, way: str, region: str
) -> Choice:
    form, spread = one.form, float(found.spread[at])
    replicas = int(found.replicas[at])
    exact = float(question.rate / (found.most_rate[at] * form.copies * question.utilisation))
    bound = (max(1, int(np.ceil(exact / spread))), max(1, int(np.ceil(exact * spread))))
    listed = machine_price(form.word, region, way, form.machine_type)
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
        one, way, region, bool(found.keeps[at]), replicas, bound[1],
        _around(float(found.ttft95[at]) * 1e3, spread),
        _around(float(found.step95[at]) * 1e3, spread),
        _around(most, spread), float(found.utilisation[at]), listed, hour, million, every,
        _start(form.chip.kind, one.shape.weights_gb, way), _notes(form.word, region, way, listed),
        float(found.batch[at]), spread,
    )  # fmt: skip


@cache
def _notes(word: str, region: str, way: str, listed: Price | None) -> tuple[str, ...]:
    """Return what is known about getting it, and about its price."""
    partial = listed is not None and listed.lacks_host
    return (*notes(word, region, way), *(["price of the accelerators alone"] if partial else []))


_LADDER = ("reservation", "on-demand", "flex-start", "spot")
"""The order that google/skills @1af7775 (gke-compute-classes) advises for inference."""


def ladder(one: Choice, choices: Sequence[Choice]) -> list[Choice]:
    """Return the ways to buy a choice's form in its region: the chosen one, then the others.

    What has no price is no rung, unless it was chosen.
    """
    alike = [
        each
        for each in choices
        if each.candidate == one.candidate
        and each.region == one.region
        and each.provisioning != one.provisioning
        and each.price is not None
    ]
    return [one, *sorted(alike, key=lambda each: _LADDER.index(each.provisioning))]


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
