"""How long a fallback takes to answer: as long as a hosted API took in a published measurement.

The figures are those of the LLMPerf Leaderboard (github.com/ray-project/llmperf-leaderboard, README
of 2023-12-19) for Llama 2 70B at Fireworks, the upper median of its eight providers in time to
first token and in tokens per second: 150 requests from Oregon, five at a time, with prompts of 550
tokens and answers of 150. A backend of a stack may be faster or slower.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

_ANSWER_TOKENS: Final = 150
_TTFT_SHARES: Final = (0.0, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
_TTFT_SECONDS: Final = (0.32, 0.39, 0.51, 0.56, 0.79, 0.95, 0.96)
"""Times to the first token: minimum, quartiles, P95, P99, maximum."""
_RATE_SHARES: Final = (0.0, 0.05, 0.25, 0.5, 0.75, 1.0)
_RATES: Final = (46.0, 45.0, 42.0, 40.0, 38.0, 33.0)
"""Answer tokens per second of a whole request, from the fastest to the slowest."""
_EVEN: Final = (0.7548776662466927, 0.5698402909980532)
"""Multiples of both, modulo 1, spread evenly over a square: powers of the inverse of the plastic
number."""


def durations(first: int, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return seconds to the first token, and between tokens after it, of consecutive answers.

    Args:
        first: Number of answers before them.
        count: Number of answers.
    """
    at = np.arange(first + 1, first + count + 1)
    ttft = np.interp(at * _EVEN[0] % 1.0, _TTFT_SHARES, _TTFT_SECONDS)
    rates = np.interp(at * _EVEN[1] % 1.0, _RATE_SHARES, _RATES)
    median = _TTFT_SECONDS[2]
    return ttft, (_ANSWER_TOKENS / rates - median) / (_ANSWER_TOKENS - 1)
