"""Ranks the hardware for a model by its traffic and SLO."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from gke_inference.catalogue.accelerators import is_sold, regions_of
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.prices import Price
from planner.choice.availability import notes
from planner.choice.candidates import Candidate, Form, Refused, candidates
from planner.choice.coldstart import ColdStart, cold_start
from planner.choice.cost import machine_price
from planner.choice.question import FOR_SERVING, Estimate, Question, operating_points_of
from planner.fit.tables import table
from planner.speed.throughput import OperatingPoints

TEMPORARY = ("spot", "flex-start")
"""Provisioning whose nodes end: taken back at 30 s notice, or after seven days."""


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
