"""When to disaggregate prefill and decode, and with how many replicas of each.

Prefill replicas compute prompts in consecutive steps; decode replicas read the KV cache over the
network and compute the last token of a prompt. Both roles run on the same hardware. No published
measurement of a role is among the planner's points, so the intervals are those of its roofline.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gke_inference.intent.kv_transport import TRANSPORTS
from gke_inference.sizing.memory import kv_token_bytes
from planner.choice.candidates import Candidate
from planner.choice.plan import Choice, Plan
from planner.choice.question import NO_LIMIT_MS, Estimate, Question, operating_points_of
from planner.fit.chips import HOST_NETWORKS
from planner.speed.links import READ_LATENCY_SECONDS, read_bytes_per_second
from planner.unit_cost.prompt_speed import Prompts, prompts


@dataclass(frozen=True)
class Roles:
    """A disaggregated deployment of a model."""

    choice: Choice
    """Hardware of both roles, as ranked for replicas that do everything."""
    prefill: int
    """Prefill replicas."""
    prefill_high: int
    """Prefill replicas at the slow end of the interval."""
    decode: int
    decode_high: int
    transfer_seconds: float
    """Time to transfer the KV cache of a prompt."""
    ttft_p95_ms: Estimate
    tpot_p95_ms: Estimate
    keeps_promise: bool
    """Whether it meets the latency targets."""
    usd_per_hour: Estimate

    @property
    def sort_key(self) -> tuple[bool, float]:
        """Sort key: latency targets met first, then cost."""
        return (not self.keeps_promise, self.usd_per_hour.value)


@dataclass(frozen=True)
class Advice:
    """Whether to disaggregate a model."""

    is_better: bool
    reason: str
    roles: Roles
    """The best disaggregated deployment."""


def advise(answer: Plan) -> Advice | None:
    """Return whether to disaggregate the model of a plan; None if no hardware of it can.

    The deployment with the lowest cost that meets the targets is compared with the best choice of
    the plan, whatever its hardware: both on nodes that stay, if those of the best choice do.
    """
    best = next((one for one in answer.choices if one.usd_per_hour is not None), None)
    if best is None or best.usd_per_hour is None:
        return None
    alike = [one for one in answer.choices if one.is_floor == best.is_floor]
    found = [made for choice in _movable(alike) if (made := roles_of(answer.question, choice))]
    if not found:
        return None
    roles = min(found, key=lambda one: one.sort_key)
    if not roles.keeps_promise:
        return Advice(False, "disaggregated replicas do not meet the targets either", roles)
    if not best.keeps_promise:
        return Advice(True, "only disaggregated replicas meet the targets", roles)
    mine, other = roles.usd_per_hour, best.usd_per_hour
    compared = f"${mine.value:,.2f} instead of ${other.value:,.2f} an hour"
    overlaps = mine.low <= other.high and other.low <= mine.high
    doubt = "; the intervals overlap, so measure both" if overlaps else ""
    return Advice(mine.value < other.value, f"{compared}{doubt}", roles)


def can_move(one: Candidate) -> bool:
    """Return whether the KV cache of a candidate can be transferred."""
    transport = TRANSPORTS.get(one.form.word)
    if transport is None or one.form.hosts > 1 or one.form.copies > 1:
        return False
    return transport.topology is None or one.form.topology == transport.topology


def _movable(choices: Sequence[Choice]) -> list[Choice]:
    """Return the cheapest priced choice of each form whose KV cache can be transferred."""
    found: dict[Candidate, Choice] = {}
    for one in choices:
        if one.price is None or not can_move(one.candidate):
            continue
        least = found.get(one.candidate)
        if (
            least is None
            or least.price is None
            or one.price.usd_per_hour < least.price.usd_per_hour
        ):
            found[one.candidate] = one
    return list(found.values())


def transfer_seconds(question: Question, one: Candidate) -> float:
    """Return the time to transfer the KV cache of the computed part of a prompt."""
    transport = TRANSPORTS[one.form.word]
    network = HOST_NETWORKS["rdma" if transport.needs_rdma else "tcp"]
    tokens = question.given * (1 - question.prefix_share)
    size = tokens * kv_token_bytes(one.shape, one.kv_bits)
    return size / read_bytes_per_second(network, one.form.chips) + READ_LATENCY_SECONDS


def roles_of(question: Question, choice: Choice) -> Roles | None:
    """Return the number of replicas of each role; None without a price.

    Args:
        question: Question that the choice answers.
        choice: Choice whose KV cache can be transferred.
    """
    if choice.price is None:
        return None
    one = choice.candidate
    moved = transfer_seconds(question, one)
    left = max(1.0, question.ttft_p95_ms - moved * 1e3)
    before = prompts(replace(question, made=1, ttft_p95_ms=left, tpot_p95_ms=NO_LIMIT_MS), one)
    cached = 1 - 1 / question.given  # a decode replica computes the last token of a prompt itself
    after = operating_points_of(
        replace(question, prefix_share=cached, ttft_p95_ms=NO_LIMIT_MS), [one]
    )
    spread = float(after.spread[0])
    prefill, prefill_low, prefill_high = _counts(question, before.rate, before.spread)
    decode, decode_low, decode_high = _counts(question, float(after.most_rate[0]), spread)
    step95 = float(after.step95[0]) * 1e3
    ttft = _first_token(before, moved, step95)
    hour = choice.price.usd_per_hour
    return Roles(
        choice, prefill, prefill_high, decode, decode_high, moved, ttft,
        Estimate(step95, step95 / spread, step95 * spread),
        bool(after.keeps[0]) and ttft.value <= question.ttft_p95_ms,
        Estimate(
            hour * (prefill + decode),
            hour * (prefill_low + decode_low),
            hour * (prefill_high + decode_high),
        ),
    )  # fmt: skip


def _first_token(before: Prompts, moved: float, step95: float) -> Estimate:
    waits, rest = before.waits95 * 1e3, moved * 1e3 + step95
    spread = before.spread_first
    return Estimate(waits + rest, waits / spread + rest, waits * spread + rest)


def _counts(question: Question, rate: float, spread: float) -> tuple[int, int, int]:
    """Return the replicas for a question's rate, and those at either end of the interval."""
    exact = question.rate / (rate * question.utilisation)
    low, high = (max(1, int(np.ceil(exact * factor))) for factor in (1 / spread, spread))
    return max(1, math.ceil(round(exact, 9))), low, high
