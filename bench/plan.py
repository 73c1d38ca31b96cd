"""The time that the planner takes to rank candidates."""

import time
from typing import Any

from gke_inference.sizing.architectures import find
from planner.choice.plan import plan
from planner.choice.question import Question

_MODELS = ("llama-3.1-8b", "qwen3-8b", "gemma-3-12b")
_AT_LEAST = 10_000


def plan_rows(runs: int) -> list[dict[str, Any]]:
    """Measure the ranking of at least 10,000 candidates; the fastest run counts.

    The first run also fits the correction and reads every table.
    """
    rows: list[dict[str, Any]] = []
    seconds: list[float] = []
    count = 0
    for _ in range(runs + 1):
        begun, count = time.monotonic(), 0
        for name in _MODELS:
            model = find(name)
            if model is not None and count < _AT_LEAST:
                count += len(plan(Question(model, 10, 1000, 200)).choices)
        seconds.append(time.monotonic() - begun)
    rows.append(
        {
            "candidates": count,
            "first_s": round(seconds[0], 2),
            "again_s": round(min(seconds[1:]), 2),
        }
    )
    return rows
