"""Speed of computing prompts alone: for embeddings, and for disaggregated prefill.

Prompts are computed in consecutive steps of several prompts each. Arrivals wait as in an M/D/1
queue (one server, fixed times), at the assumed utilization of the replicas. For answers without
their prompts, the planner estimates as if the prompts were cached. The planner's data has no
published measurements of either case, so it falls back to its roofline and its intervals are wide.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from gke_inference.catalogue.rungs import Rung
from gke_inference.sizing.memory import STEP_TOKENS
from planner.choice.candidates import Candidate
from planner.choice.question import NO_LIMIT_MS, Estimate, Question, traits_of, work_of
from planner.speed.correction import Traits, correction, first_correction
from planner.speed.points import BETWEEN, FIRST
from planner.speed.roofline_step import step
from planner.speed.throughput import spread_of
from planner.unit_cost.unit_cost import (
    MILLION_INPUT,
    MILLION_TOKENS,
    Asked,
    Speed,
    Traffic,
    candidate_of,
    promise,
    question_of,
    requests_of,
    speed_of,
)


def embed_speed(asked: Asked, rung: Rung, traffic: Traffic) -> Speed:
    """Return the maximum prompt tokens per second that a replica on a rung embeds.

    Assumes that no part of a prompt is cached. The embedding table is looked up, not computed.
    """
    if traffic.given > asked.context:
        return Speed(MILLION_INPUT, None, _too_long(asked, traffic.given))
    given = max(1, min(traffic.given, asked.context - 1))  # the planner counts a token of an answer
    question = question_of(asked, replace(traffic, given=given, made=1, prefix_share=0.0))
    one = candidate_of(asked, rung)
    table = asked.architecture.vocab * asked.architecture.hidden / 1e9
    computed = replace(  # taken out of both, or the rest would look like a mixture of experts
        one.shape,
        active_billion=max(one.shape.active_billion - table, 0.0),
        parameters_billion=one.shape.parameters_billion - table,
    )
    one = replace(one, shape=computed)
    said = f"{traffic.given} tokens in"
    question = replace(question, tpot_p95_ms=NO_LIMIT_MS)
    return _speed(MILLION_INPUT, traffic.given, said, asked, question, one)


def prefill_speed(asked: Asked, rung: Rung, traffic: Traffic) -> Speed:
    """Return the maximum answer tokens per second for which a replica computes the prompts."""
    try:
        question = question_of(asked, traffic)
    except ValueError as error:
        return Speed(MILLION_TOKENS, None, str(error))
    question = replace(question, made=1, tpot_p95_ms=NO_LIMIT_MS)
    said = f"{requests_of(traffic)}; prompts only"
    return _speed(MILLION_TOKENS, traffic.made, said, asked, question, candidate_of(asked, rung))


def decode_speed(asked: Asked, rung: Rung, traffic: Traffic) -> Speed:
    """Return the answer tokens per second of a replica whose prompts are computed elsewhere."""
    try:
        question = question_of(asked, traffic)
    except ValueError as error:
        return Speed(MILLION_TOKENS, None, str(error))
    cached = 1 - 1 / traffic.given  # it computes the last token of a prompt itself
    question = replace(question, prefix_share=cached, ttft_p95_ms=NO_LIMIT_MS)
    said = f"{requests_of(traffic)}; answers only"
    return speed_of(MILLION_TOKENS, traffic.made, said, asked, question, candidate_of(asked, rung))


def _speed(
    unit: str, each: float, said: str, asked: Asked, question: Question, one: Candidate
) -> Speed:
    """Return the maximum prompt speed of a replica; arguments are those of `speed_of`."""
    if (problem := one.room.problem) is not None:
        return Speed(unit, None, f"it {problem}")
    found = prompts(question, one)
    keeps = found.waits95 * 1e3 <= question.ttft_p95_ms
    most = found.rate * one.form.copies * each
    basis = f"{said}; {promise(asked, question)}{'' if keeps else '; no step keeps it'})"
    return Speed(unit, Estimate(most, most / found.spread, most * found.spread), basis, keeps)


@dataclass(frozen=True)
class Prompts:
    """Prompt throughput and latency of one copy of a model."""

    rate: float
    """Prompts per second in consecutive steps."""
    waits95: float
    """95th percentile of the time until a prompt is computed, in seconds, at the utilization."""
    spread: float
    """Factor up and down that should contain 80 % of such estimates of the rate."""
    spread_first: float
    """The same for the wait."""


def prompts(question: Question, one: Candidate) -> Prompts:
    """Return the steps with the highest rate within the SLO, or the shortest if none meet it."""
    load = work_of(question, one)
    given = float(load.given[0])
    most = max(1.0, one.form.stages * STEP_TOKENS / (1 + given))
    counts = np.unique(np.minimum(2.0 ** np.arange(0, math.log2(most) + 1), most))
    found = step(load, counts)
    wanted = traits_of(question, [one])
    factor = np.exp(correction().mean(wanted, counts)[0])
    seconds = found.with_prompt * factor
    rates = found.batches * found.chunk / given / seconds
    busy = min(question.utilisation, 0.98)
    service = seconds * np.maximum(1.0, given / found.chunk)
    waits = service * (1 + max(0.0, math.log(busy / 0.05)) / (2 * (1 - busy)))
    waits = waits + float(load.first[0])
    keeps = waits * 1e3 <= question.ttft_p95_ms
    best = int(np.argmax(np.where(keeps, rates, 0.0)) if keeps.any() else np.argmin(waits))
    numbers = wanted.numbers.copy()
    numbers[:, 0] = math.log(counts[best])
    at_batch = Traits(numbers, wanted.names)
    spread, spread_first = (
        float(spread_of(fitted, at_batch, quantity)[0])
        for fitted, quantity in ((correction(), BETWEEN), (first_correction(), FIRST))
    )
    return Prompts(float(rates[best]), float(waits[best]), spread, spread_first)


def _too_long(asked: Asked, given: int) -> str:
    return f"input: must be at most the {asked.context} tokens of its context, got {given}"
