"""The default day: traffic of published shape, for models whose mean rates are known.

Figures marked "computed" come from the public traces named beside them.
"""

import math
from collections.abc import Mapping, Sequence

from simulator.demand.generated import Generated
from simulator.demand.pattern import Documents, Kind, Origin, Pattern, Rate, Sessions

HOURS = (
    0.839, 0.714, 0.733, 0.676, 0.714, 0.660, 0.684, 0.855, 1.015, 1.054, 1.125, 1.093,
    1.060, 1.073, 1.060, 1.047, 1.091, 1.079, 1.007, 1.229, 1.456, 1.402, 1.270, 1.063,
)  # fmt: skip
"""Mean of each hour over the mean of the day: peak 1.46, trough 0.66. Computed over the 14 days of
the small language model in ServeGen (github.com/alibaba/ServeGen, data/language/m-small)."""
TEN_MINUTE_PEAK = 3.3
"""Highest ten minutes over the mean: computed from the same traces."""
TOP_TENTH = 0.7
"""Part of the requests that the first tenth of the clients sends. Computed from the same traces:
the first 4 of 43 clients send 71 %."""

CHAT = Kind(
    share=0.70,
    gap_cv=1.1,
    prompt_tokens=(
        (0, 2), (5, 181), (10, 207), (25, 396), (50, 1020), (75, 1189), (90, 2734), (95, 4083),
        (99, 4142), (99.9, 6179), (100, 14050),
    ),
    output_tokens=(
        (0, 7), (5, 41), (10, 54), (25, 85), (50, 129), (75, 395), (90, 424), (95, 451),
        (99, 601), (99.9, 954), (100, 1000),
    ),
)  # fmt: skip
"""Lengths and gaps computed from Azure's conversation trace of 2023 (AzurePublicDataset,
data/AzureLLMInferenceTrace_conv.csv): mean 1,155 and 211 tokens, gap CV 1.09. The shares of the
three kinds are assumed."""

LONG = Kind(
    share=0.15,
    gap_cv=3.5,
    prompt_tokens=(
        (0, 891), (5, 901), (10, 964), (25, 2306), (50, 6909), (75, 15367), (90, 27367),
        (95, 39550), (99, 85400), (99.9, 121301), (100, 126195),
    ),
    output_tokens=(
        (0, 1), (5, 10), (10, 24), (25, 156), (50, 350), (75, 472), (90, 597), (95, 698),
        (99, 1119), (100, 2000),
    ),
    documents=Documents(requests=4, share=0.4885, gap_seconds=60),
)  # fmt: skip
"""Lengths computed from Mooncake's conversation trace (kvcache-ai/Mooncake, FAST25-release): mean
12,035 and 343 tokens; 36.6 % of its blocks repeat, as 48.85 % of three in four prompts here. Gaps
as of ServeGen's API clients, whose CV is 3.5 (large model) to 3.6 (small). Four requests per text
and a minute between them are assumed."""

AGENTS = Kind(
    share=0.15,
    gap_cv=13.0,
    output_tokens=444,
    sessions=Sessions(turns=43, first_tokens=39_600, tokens_per_turn=4_876, gap_seconds=10),
)
"""Sessions as in vLLM's AgentX figures (quoted in github.com/vllm-project/vllm/issues/57103): a
median of 43 turns, 142,000 tokens of prompt and 444 of answer, and 96 % of prompt tokens seen
before; the first prompt and the growth follow from these. Gaps: computed from Azure's code trace of
2023 (CV 13.15); a burst has at most one turn of each open session (`Stream.shape`). 95 % of next
turns come within 10 s (github.com/vllm-project/router/issues/285)."""

KINDS = {"chat": CHAT, "long": LONG, "agents": AGENTS}
"""The mix of the default day."""


def default_pattern(
    models: Mapping[str, float],
    seed: int = 0,
    *,
    contexts: Mapping[str, int] | None = None,
    teams: Sequence[str] = (),
    teams_of: Mapping[str, Mapping[str, float]] | None = None,
    regions: Mapping[str, Origin] | None = None,
    length_hours: float = 24.0,
) -> Pattern:
    """Return the pattern of the default day.

    Args:
        models: Mean requests per second of each model.
        seed: Seed of all random numbers.
        contexts: Longest prompt and answer of models, in tokens.
        teams: Names of the teams, the largest first; the first tenth sends `TOP_TENTH`.
        teams_of: Shares of teams of single models, where they differ.
        regions: Clients' regions, with shares and time.
        length_hours: Length; more than a day repeats the curve.
    """
    contexts = contexts or {}
    return Pattern(
        models={
            name: Rate(
                requests_per_second=rate,
                context=contexts.get(name),
                teams=None if teams_of is None or name not in teams_of else dict(teams_of[name]),
            )
            for name, rate in models.items()
        },
        kinds=KINDS,
        hours=HOURS,
        ten_minute_peak=TEN_MINUTE_PEAK,
        length_hours=length_hours,
        teams=dict(zip(teams, shares_of(len(teams)), strict=True)),
        regions=dict(regions or {}),
        seed=seed,
    )


def default_day(
    models: Mapping[str, float],
    seed: int = 0,
    *,
    contexts: Mapping[str, int] | None = None,
    teams: Sequence[str] = (),
    teams_of: Mapping[str, Mapping[str, float]] | None = None,
    regions: Mapping[str, Origin] | None = None,
    length_hours: float = 24.0,
) -> Generated:
    """Return the traffic of the default day; arguments are those of `default_pattern`."""
    return Generated(
        default_pattern(
            models,
            seed,
            contexts=contexts,
            teams=teams,
            teams_of=teams_of,
            regions=regions,
            length_hours=length_hours,
        )
    )


def shares_of(count: int) -> list[float]:
    """Return shares of clients, falling as a power of the rank: the first tenth has `TOP_TENTH`."""
    top = math.ceil(count / 10)
    if top == count:
        return [1.0] * count
    low, high = 0.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        weights = [(rank + 1) ** -middle for rank in range(count)]
        if sum(weights[:top]) / sum(weights) < TOP_TENTH:
            low = middle
        else:
            high = middle
    weights = [(rank + 1) ** -high for rank in range(count)]
    return [weight / sum(weights) for weight in weights]
