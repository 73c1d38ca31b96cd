"""Cost of batch traffic: full replicas, without latency targets."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from planner.choice.plan import Choice
from planner.choice.question import NO_LIMIT_MS, Estimate, Question, operating_points_of


def of_batches(question: Question) -> Question:
    """Return the question for batch traffic: replicas are always full, and nobody waits."""
    return replace(question, ttft_p95_ms=NO_LIMIT_MS, tpot_p95_ms=NO_LIMIT_MS, utilisation=1.0)


def batch_costs(question: Question, choices: Sequence[Choice]) -> list[Estimate | None]:
    """Return dollars per million answer tokens of batch traffic; None where no price is known."""
    if not choices:
        return []
    found = operating_points_of(of_batches(question), [one.candidate for one in choices])
    costs: list[Estimate | None] = []
    for at, one in enumerate(choices):
        if one.price is None:
            costs.append(None)
            continue
        tokens = float(found.most_rate[at]) * one.candidate.form.copies * question.made * 3600
        spread = float(np.asarray(found.spread)[at])
        value = one.price.usd_per_hour / tokens * 1e6
        costs.append(Estimate(value, value / spread, value * spread))
    return costs
