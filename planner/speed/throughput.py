"""Largest batch of candidates within a latency SLO, and the throughput and latency at that batch.

A copy of a model is evaluated over a grid of batches. The step time of a batch determines the
throughput and the time between tokens. By Little's law, the batch and the duration of a request
determine the arrival rate. Percentiles: with Poisson arrivals, the number of requests in an engine
is close to Poisson, so the 95th percentile of the time between tokens is that of a batch larger by
1.645 times its square root. Prompts wait for each other as in an M/D/1 queue (one server, fixed
times), whose server is busy in the fraction of steps that compute prompts. Closed loops, in which
published times are measured, wait differently (`roofline_step.first_token_of_loop`): no plan has
the burst with which they begin.
"""

from dataclasses import dataclass

import numpy as np

from planner.speed.correction import Correction, Traits, correction, first_correction, reach_of
from planner.speed.points import BETWEEN, FIRST
from planner.speed.roofline_step import Array, Work, first_token, most_kept_busy, step

BATCHES: Array = np.unique(np.round(2.0 ** np.arange(0, 10.01, 0.25))).astype(np.float64)
_TAIL95 = 1.645
_SATURATED = 0.98


@dataclass(frozen=True)
class Curves:
    """Candidates over `BATCHES`; each field has one row per candidate. Times are in seconds."""

    step: Array
    """Mean time between tokens."""
    step95: Array
    """95th percentile of the time between tokens."""
    ttft: Array
    """Mean time to the first token without queueing."""
    ttft95: Array
    """95th percentile of the time to the first token."""
    alone95: Array
    """The part of it that is not the wait for other prompts."""
    rate: Array
    """Requests per second."""
    fits: Array
    """1 if the KV cache holds the 95th percentile of the batch."""


def curves(one: Work, wanted: Traits, room_sequences: Array) -> Curves:
    """Return the curves of candidates.

    Args:
        one: Work of the candidates.
        wanted: Traits of the candidates; their batch is not used.
        room_sequences: Sequences of this load that the KV cache of each candidate holds.
    """
    wide = one.column()
    factor = np.exp(correction().mean(wanted, BATCHES))
    first = np.exp(first_correction().mean(wanted, BATCHES))
    batches = BATCHES[None, :]
    tail = batches + _TAIL95 * np.sqrt(batches)
    mean, worse = step(wide, batches), step(wide, tail)
    own = first_token(wide, mean) * first
    busy = np.minimum(_SATURATED, mean.part)
    service = mean.with_prompt * np.maximum(1.0, wide.given / mean.chunk)
    wait95 = service / (2 * (1 - busy)) * np.log(np.maximum(1.0, busy / 0.05))
    wait = busy * service / (2 * (1 - busy))
    ttft = own + wait * factor
    seconds = mean.seconds * factor
    limit = np.minimum(room_sequences, np.maximum(1.0, most_kept_busy(one)))[:, None]
    return Curves(
        seconds,
        worse.seconds * factor,
        ttft,
        own + np.maximum(wait, wait95) * factor,
        own,
        batches / (ttft + wide.made * seconds),
        np.where((tail <= limit) | ((batches == 1) & (limit >= 1)), 1.0, 0.0),
    )


@dataclass(frozen=True)
class OperatingPoints:
    """Operating points; each field has one entry per candidate. Times are in seconds."""

    keeps: Array
    """1 if some batch meets the SLO."""
    most_rate: Array
    """Requests per second that one copy serves within the SLO."""
    replicas: Array
    """Replicas for the requested rate at the requested utilization."""
    batch: Array
    """Batch of a copy at the requested rate."""
    step: Array
    step95: Array
    ttft: Array
    ttft95: Array
    utilisation: Array
    """Requested rate divided by the maximum rate of the replicas."""
    spread: Array
    """Factor up and down that should contain 80 % of such estimates of times between tokens, and of
    throughput."""
    spread_first: Array
    """The same for times to the first token."""


def operating_points(
    found: Curves,
    wanted: Traits,
    copies: Array,
    *,
    rate: float,
    ttft95: float,
    step95: float,
    utilisation: float,
    doubt: float | Array = 1.0,
) -> OperatingPoints:
    """Return the operating points of candidates.

    Args:
        found: Curves of the candidates.
        wanted: Traits of the candidates.
        copies: Copies of the model in a replica of each candidate.
        rate: Requested rate, in requests per second.
        ttft95: SLO for the 95th percentile of the time to the first token, in seconds.
        step95: SLO for the 95th percentile of the time between tokens, in seconds.
        utilisation: Target fraction of the maximum rate of the replicas.
        doubt: Factor up and down that widens the intervals, independent of the correction.
    """
    allowed = (found.ttft95 <= ttft95) & (found.step95 <= step95) & (found.fits > 0)
    keeps = allowed.any(axis=1)
    usable = np.where(allowed, found.rate, np.where(found.fits > 0, found.rate * 1e-6, 0.0))
    best = np.argmax(usable, axis=1)
    rows = np.arange(len(best))
    most = found.rate[rows, best]
    replicas = np.ceil(np.round(rate / (most * copies * utilisation), 9))
    each = rate / (replicas * copies)
    at = _at_rate(found, each, best)
    names = wanted.numbers.copy()
    names[:, 0] = np.log(np.maximum(1.0, at["batch"]))
    at_batch = Traits(names, wanted.names)
    spread, spread_first = (
        spread_of(fitted, at_batch, quantity, doubt)
        for fitted, quantity in ((correction(), BETWEEN), (first_correction(), FIRST))
    )
    return OperatingPoints(
        np.asarray(keeps, dtype=np.float64), most, replicas, at["batch"], at["step"],
        at["step95"], at["ttft"], at["ttft95"], rate / (most * copies * replicas), spread,
        spread_first,
    )  # fmt: skip


def spread_of(
    fitted: Correction, wanted: Traits, quantity: str, doubt: float | Array = 1.0
) -> Array:
    """Return the factor up and down that should contain 80 % of such estimates.

    Args:
        fitted: Correction of the quantity.
        wanted: Traits of the estimates.
        quantity: One of `points.QUANTITIES`.
        doubt: Factor that widens the interval, independent of the correction.
    """
    own = reach_of(wanted, fitted.unknown(wanted), quantity)
    return np.exp(np.sqrt(own**2 + np.log(doubt) ** 2))


def _at_rate(found: Curves, each: Array, best: np.ndarray) -> dict[str, Array]:
    """Return the batch and times of each candidate at its rate, interpolated between batches."""
    rows = np.arange(len(each))
    above = np.argmax(found.rate >= each[:, None], axis=1)
    above = np.where(found.rate[rows, above] >= each[:], above, best)
    below = np.maximum(0, above - 1)
    low, high = found.rate[rows, below], found.rate[rows, above]
    gap = np.where(high > low, high - low, 1.0)
    part = np.clip(np.where(high > low, (each - low) / gap, 1.0), 0.0, 1.0)

    def between(values: Array) -> Array:
        return (1 - part) * values[rows, below] + part * values[rows, above]

    grid = np.broadcast_to(BATCHES, found.step.shape)
    light = each < found.rate[:, 0]
    batch = np.where(light, each / found.rate[:, 0], between(grid))
    return {
        "batch": batch,
        "step": between(found.step),
        "step95": between(found.step95),
        "ttft": between(found.ttft),
        "ttft95": between(found.ttft95),
    }
