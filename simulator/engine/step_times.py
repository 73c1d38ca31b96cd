"""Step times of a running engine against the engine model, from the growth of vLLM's counters.

In a period, an engine computes N steps that give D tokens to running sequences, and F prompts. So
D/N sequences get a token per step, and some steps also compute a prompt. The model's time of these
steps, weighted by their tokens, is what the sum of the times between tokens should have grown by.
The batch varies within a period about as a Poisson variable, as the planner assumes as well.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from planner.speed.roofline import CostModel, StepLoad

_LEAST_STEPS = 20
"""Steps of a period that is compared."""
_LEAST_PERIODS = 5
NOISE = 0.05
"""A difference within this, or within its interval, is not corrected: docs/calibration.md."""
MODEL_ERROR = 0.02
"""Error of the mean step that stands for all steps of a period, of simulated engines; widens each
interval."""


@dataclass(frozen=True)
class Period:
    """Growth of an engine's counters between two scrapes."""

    steps: float
    between_tokens: float
    """Tokens after the first of each answer."""
    between_seconds: float
    """Sum of the times before these."""
    prompts: float
    """First tokens."""
    computed_tokens: float
    """Prompt tokens that were not in the cache."""


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
    periods: Sequence[Period], cost: CostModel, context: float, chunk: int
) -> Compared | None:
    """Return how step times differ from the model's; None for too few steps with a batch.

    Args:
        periods: Growth of counters, of one or several engines of one kind.
        cost: Model of their step times.
        context: Mean tokens that a running sequence has.
        chunk: Most tokens of a step (`--max-num-batched-tokens`).
    """
    used = [each for each in periods if each.steps >= _LEAST_STEPS and each.between_tokens > 0]
    if len(used) < _LEAST_PERIODS:
        return None
    pairs = [(each.between_seconds, _expected(each, cost, context, chunk)) for each in used]
    measured, modelled = (math.fsum(side) for side in zip(*pairs, strict=True))
    factor = measured / modelled
    spread = math.fsum((one - factor * other) ** 2 for one, other in pairs)
    count = len(pairs)
    error = math.sqrt(spread * count / (count - 1)) / modelled
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
    batch = period.between_tokens / period.steps
    each = period.computed_tokens / period.prompts if period.prompts else 0.0
    parts = max(1, math.ceil(each / max(chunk - batch, 1)))
    wanted = period.prompts * parts
    mixed = period.steps * -math.expm1(-wanted / period.steps)  # prompts that share a step
    total = 0.0
    spread = math.sqrt(batch)
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
