"""At which batch candidates keep a latency promise, how much they serve there, and what is kept.

A copy of a model is followed over a grid of batches. At a batch, the step time says throughput and
time between tokens; by Little's law the batch and the time of a request give the rate of arrivals.
Percentiles: the number of requests in an engine with Poisson arrivals is close to Poisson, so the
95th percentile of the time between tokens is that of a batch larger by 1.645 of its roots; prompts
wait for each other as in a queue with one server and fixed times (M/D/1), whose server is busy in
that part of the steps that computes prompts.
"""

from dataclasses import dataclass

import numpy as np

from gke_inference.sizing.memory import STEP_TOKENS
from planner.speed.correction import Z80, Correction, Traits
from planner.speed.roofline_step import Array, Work, most_kept_busy, step

BATCHES: Array = np.unique(np.round(2.0 ** np.arange(0, 10.01, 0.25))).astype(np.float64)
_TAIL95 = 1.645
_SATURATED = 0.98


@dataclass(frozen=True)
class Curves:
    """Candidates over `BATCHES`; each field has a row a candidate, seconds."""

    step: Array
    """Between tokens, mean."""
    step95: Array
    """Between tokens, 95th percentile."""
    ttft: Array
    """To the first token, mean, nobody waiting."""
    ttft95: Array
    """To the first token, 95th percentile."""
    rate: Array
    """Requests a second."""
    fits: Array
    """1 where the KV cache holds the 95th percentile of the batch."""


def curves(one: Work, fitted: Correction, wanted: Traits, room_sequences: Array) -> Curves:
    """Return the curves of candidates.

    Args:
        one: their work.
        fitted: the correction.
        wanted: their traits; the batch in them is not used.
        room_sequences: sequences of this load that the KV cache of each holds.
    """
    wide = one.column()
    factor = np.exp(fitted.mean(wanted, BATCHES))
    batches = BATCHES[None, :]
    tail = batches + _TAIL95 * np.sqrt(batches)
    mean, worse = step(wide, batches), step(wide, tail)
    chunks = np.ceil(np.maximum(1.0, wide.given) / STEP_TOKENS)
    own = chunks * mean.with_prompt + 0.5 * mean.decode
    busy = np.minimum(_SATURATED, mean.part)
    service = mean.with_prompt * np.maximum(1.0, wide.given / mean.chunk)
    wait95 = service / (2 * (1 - busy)) * np.log(np.maximum(1.0, busy / 0.05))
    wait = busy * service / (2 * (1 - busy))
    ttft = (own + wait) * factor
    seconds = mean.seconds * factor
    limit = np.minimum(room_sequences, np.maximum(1.0, most_kept_busy(one)))[:, None]
    return Curves(
        seconds,
        worse.seconds * factor,
        ttft,
        (own + np.maximum(wait, wait95)) * factor,
        batches / (ttft + wide.made * seconds),
        np.where((tail <= limit) | ((batches == 1) & (limit >= 1)), 1.0, 0.0),
    )


@dataclass(frozen=True)
class Operation:
    """Candidates at their work; each field has an entry a candidate, seconds."""

    keeps: Array
    """1 where some batch keeps the promise."""
    most_rate: Array
    """Requests a second that one copy serves within the promise."""
    most_batch: Array
    replicas: Array
    """Replicas for the rate asked for, at the utilisation asked for."""
    batch: Array
    """Of a copy at the rate asked for."""
    step: Array
    step95: Array
    ttft: Array
    ttft95: Array
    utilisation: Array
    """Rate asked for over what the replicas serve at most."""
    spread: Array
    """Factor up and down that should hold 80 % of such estimates."""


def operate(
    found: Curves,
    fitted: Correction,
    wanted: Traits,
    copies: Array,
    *,
    rate: float,
    ttft95: float,
    step95: float,
    utilisation: float,
) -> Operation:
    """Return where candidates work.

    Args:
        found: their curves.
        fitted: the correction, for the spread.
        wanted: their traits.
        copies: copies of the model in a replica of each.
        rate: requests a second asked for.
        ttft95: promise to the first token, in seconds.
        step95: promise between tokens, in seconds.
        utilisation: part of what replicas can serve that is to be used.
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
    spread = np.exp(Z80 * fitted.deviation(Traits(names, wanted.names)))
    return Operation(
        np.asarray(keeps, dtype=np.float64), most, BATCHES[best], replicas, at["batch"], at["step"],
        at["step95"], at["ttft"], at["ttft95"], rate / (most * copies * replicas), spread,
    )  # fmt: skip


def _at_rate(found: Curves, each: Array, best: np.ndarray) -> dict[str, Array]:
    """Return batch and times of each candidate at its rate, between the batches of the grid."""
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
