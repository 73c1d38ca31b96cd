"""What keeps a replica from serving more within its latency targets."""

from dataclasses import dataclass

import numpy as np

from planner.choice.candidates import Candidate
from planner.choice.question import Question, sequences, traits_of, work_of
from planner.speed.roofline_step import Parts, Step, Work, most_kept_busy, step
from planner.speed.throughput import BATCHES, Curves, curves

COMPUTE, CAPACITY, BANDWIDTH = "compute", "memory capacity", "memory bandwidth"
NETWORK, QUEUE, ENGINE, DRAFTING = "network", "queue", "engine", "drafting"
BOUNDS = (COMPUTE, CAPACITY, BANDWIDTH, NETWORK, QUEUE, ENGINE, DRAFTING)
"""Names of bounds. `engine` is the time of a step that no hardware explains, and `drafting` that of
the passes of speculative decoding."""


@dataclass(frozen=True)
class Bound:
    """What limits the batch of a copy of a model, and therefore its throughput."""

    name: str
    """One of `BOUNDS`."""
    reason: str
    batch: float
    """Largest batch that meets the targets; 1 if none does."""
    shares: dict[str, float]
    """Share of the mean step at that batch, by `compute`, `memory bandwidth`, `network`, `engine`
    and, with draft passes, `drafting`; without the correction, which applies to the whole step."""


def bound(question: Question, one: Candidate) -> Bound:
    """Return the bound of a candidate under the targets of a question."""
    work = work_of(question, one)
    held = sequences(question, one)
    found = curves(work, traits_of(question, [one]), np.array([held]))
    allowed = _allowed(question, found)
    best = int(np.argmax(np.where(allowed, found.rate[0], 0.0))) if allowed.any() else 0
    shares = _shares(step(work, BATCHES[best : best + 1]))
    after = best + 1 if allowed.any() else best
    if after >= len(BATCHES):
        name = _largest(shares)
        reason = f"no larger batch than {BATCHES[-1]:.0f} was considered"
        return Bound(name, reason, float(BATCHES[best]), shares)
    name, reason = _next(question, found, after, held, work)
    return Bound(name, reason, float(BATCHES[best]), shares)


def _allowed(question: Question, found: Curves) -> np.ndarray:
    return (
        (found.ttft95[0] <= question.ttft_p95_ms / 1e3)
        & (found.step95[0] <= question.tpot_p95_ms / 1e3)
        & (found.fits[0] > 0)
    )


def _next(question: Question, found: Curves, at: int, held: float, work: Work) -> tuple[str, str]:
    """Return what the first batch violates that does not meet the targets, and how."""
    batch = f"a batch of {BATCHES[at]:.0f}"
    made = step(work, BATCHES[at : at + 1])
    step95, ttft95 = float(found.step95[0, at]) * 1e3, float(found.ttft95[0, at]) * 1e3
    if found.fits[0, at] <= 0 and held <= float(most_kept_busy(work)[0]):
        return CAPACITY, f"the KV cache holds {held:.0f} sequences, {batch} can need more"
    if found.fits[0, at] <= 0:
        return COMPUTE, f"steps have no room for the prompts of {batch}"
    if step95 > question.tpot_p95_ms:
        most = _largest(_shares(made))
        said = f"{batch} takes {step95:.1f} ms between tokens"
        return most, f"{said}, of which {most} is the largest part"
    wait = ttft95 - float(found.alone95[0, at]) * 1e3
    if wait > ttft95 / 2:
        return QUEUE, f"prompts of {batch} wait {wait:.0f} of {ttft95:.0f} ms to the first token"
    most = _largest(_named(made.mixed))
    said = f"{batch} takes {ttft95:.0f} ms to the first token"
    return most, f"{said}, of which {most} is the largest part"


def _largest(parts: dict[str, float]) -> str:
    return max(parts, key=lambda name: parts[name])


def _shares(made: Step) -> dict[str, float]:
    """Return the share of each part in the mean step."""
    found: dict[str, float] = dict.fromkeys((COMPUTE, BANDWIDTH, NETWORK, ENGINE), 0.0)
    part = float(made.part[0])
    for weight, parts in ((1 - part, made.alone), (part, made.mixed)):
        for name, seconds in _named(parts).items():
            found[name] = found.get(name, 0.0) + weight * seconds
    whole = sum(found.values())
    return {name: seconds / whole for name, seconds in found.items()}


def _named(parts: Parts) -> dict[str, float]:
    compute, memory = float(parts.compute[0]), float(parts.memory[0])
    longer = COMPUTE if compute >= memory else BANDWIDTH
    found = {
        longer: max(compute, memory),
        NETWORK: float(parts.links[0]),
        ENGINE: float(parts.fixed[0]),
    }
    drafts = float(parts.drafts[0])
    return found | {DRAFTING: drafts} if drafts else found
