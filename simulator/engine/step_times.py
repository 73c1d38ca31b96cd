"""Step times of a running engine against the engine model, from the growth of its counters.

In a period of T seconds, running sequences wait S seconds for D tokens. By Little's law, S/T
sequences run on average. With a Poisson number of them, as the planner assumes as well, an engine
that computes has m / (1 - exp(-m)) sequences for m = S/T, and so makes D divided by this many
steps. Some steps also compute a prompt: of those that arrive, a share of exp(-m) finds no running
sequence that would wait for it. The model's time of these steps, weighted by their tokens,
is what the sum of the times between tokens should have grown by. No engine has to count its steps.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from planner.speed.roofline import CostModel, StepLoad

LEAST_STEPS = 20
"""Steps of a period that is compared."""
LEAST_PERIODS = 5
"""Periods from whose spread an interval follows."""
NOISE = 0.05
"""A difference within this, or within its interval, is not corrected: docs/calibration.md."""
MODEL_ERROR = 0.03
"""Error of the mean step that stands for all steps of a period, of simulated engines; widens each
interval."""


@dataclass(frozen=True)
class Period:
    """Growth of an engine's counters between two scrapes."""

    seconds: float
    """Length of the period."""
    between_tokens: float
    """Tokens after the first of each answer."""
    between_seconds: float
    """Sum of the times before these."""
    prompts: float
    """First tokens."""
    computed_tokens: float
    """Prompt tokens that were not in the cache."""

    @property
    def running(self) -> float:
        """Mean running sequences over time."""
        return self.between_seconds / self.seconds

    @property
    def busy(self) -> float:
        """Share of the time with running sequences, and of the prompts that find some."""
        return -math.expm1(-self.running)

    @property
    def batch(self) -> float:
        """Mean sequences per step; 1 at least, 0 for an engine that made no token."""
        return self.running / self.busy if self.running > 0 else 0.0

    @property
    def spread(self) -> float:
        """Standard deviation of the sequences of steps."""
        return math.sqrt(max(self.batch * (1 + self.running - self.batch), 0.0))

    @property
    def steps(self) -> float:
        """Steps with running sequences."""
        return self.between_tokens / self.batch if self.batch else 0.0


@dataclass(frozen=True)
class Compared:
    """Measured step times over those of the model."""

    factor: float
    low: float
    high: float
    """Ends of the 95 % interval."""
    tpot_seconds: float
    """Measured mean time between tokens."""
    model_seconds: float
    """Mean time between tokens of the model."""
    batch: float
    """Mean sequences per step."""
    periods: int

    @property
    def is_off(self) -> bool:
        """Whether the model differs by more than noise."""
        return abs(self.factor - 1) > NOISE and not self.low <= 1 <= self.high


def compare(
    periods: Sequence[Period],
    cost: CostModel,
    context: float,
    chunk: int,
    least_periods: int = LEAST_PERIODS,
) -> Compared | None:
    """Return how step times differ from the model's; None for too few steps with a batch.

    Args:
        periods: Growth of counters, of one or several engines of one kind.
        cost: Model of their step times.
        context: Mean tokens that a running sequence has.
        chunk: Most tokens of a step (`--max-num-batched-tokens`).
        least_periods: Periods with enough steps that are needed. The interval of a single one has
            no spread, and so is too narrow.
    """
    used = [each for each in periods if each.steps >= LEAST_STEPS and each.between_tokens > 0]
    if len(used) < max(least_periods, 1):
        return None
    pairs = [(each.between_seconds, _expected(each, cost, context, chunk)) for each in used]
    measured, modelled = (math.fsum(side) for side in zip(*pairs, strict=True))
    factor = measured / modelled
    spread = math.fsum((one - factor * other) ** 2 for one, other in pairs)
    count = len(pairs)
    error = math.sqrt(spread * count / max(count - 1, 1)) / modelled
    width = math.hypot(2 * error, MODEL_ERROR * factor)
    tokens = math.fsum(each.between_tokens for each in used)
    return Compared(
        factor,
        factor - width,
        factor + width,
        measured / tokens,
        modelled / tokens,
        tokens / math.fsum(each.steps for each in used),
        count,
    )


def _expected(period: Period, cost: CostModel, context: float, chunk: int) -> float:
    """Return the sum of the times between tokens that the model has for a period."""
    batch = period.batch
    each = period.computed_tokens / period.prompts if period.prompts else 0.0
    # mean of prompts whose lengths differ widely: the last part of each is half full
    parts = max(1.0, each / max(chunk - batch, 1) + 0.5)
    wanted = period.prompts * parts * period.busy
    mixed = period.steps * -math.expm1(-wanted / period.steps)  # prompts that share a step
    total = 0.0
    spread = period.spread
    for sequences in (max(batch - spread, 0.0), batch + spread):
        decode = StepLoad(0, sequences, sequences * context, sequences * context)
        total += (period.steps - mixed) * sequences * cost.step_seconds(decode) / 2
        if mixed > 0:
            given = wanted / mixed * each / parts
            both = StepLoad(
                given,
                sequences,
                sequences * context + given,
                sequences * context + given * each / 2,
                prompts=wanted / mixed,
                prompt_context=given,
            )
            total += mixed * sequences * cost.step_seconds(both) / 2
    return total * batch / ((max(batch - spread, 0.0) + batch + spread) / 2)
