"""Measures of traffic, in one pass and bounded memory, and the pattern that has them."""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simulator.demand.arrivals import Arrivals, Traffic
from simulator.demand.pattern import (
    PERCENTS,
    Documents,
    Kind,
    Pattern,
    Rate,
    percentiles_of,
)

_HOUR = 3600.0
_TEN_MINUTES = 600.0
_BINS_PER_OCTAVE = 64
"""Bins of lengths: each is 1.1 % wide."""
_MOST_BINS = 32 * _BINS_PER_OCTAVE
_LEAST_CV, _MOST_CV = 0.1, 30.0
_LEAST_RATE = 1e-6


@dataclass
class Lengths:
    """Lengths in tokens: their sum, and counts in logarithmic bins."""

    total: int = 0
    bins: NDArray[np.int64] = field(default_factory=lambda: np.zeros(_MOST_BINS, np.int64))

    def add(self, tokens: NDArray[np.int32]) -> None:
        """Count lengths."""
        self.total += int(tokens.sum(dtype=np.int64))
        index = np.rint(np.log2(np.maximum(tokens, 1)) * _BINS_PER_OCTAVE).astype(np.int64)
        self.bins += np.bincount(index, minlength=_MOST_BINS)

    @property
    def count(self) -> int:
        """Number of lengths."""
        return int(self.bins.sum())

    @property
    def mean(self) -> float:
        """Mean length."""
        return self.total / max(self.count, 1)

    def percentiles(self) -> int | tuple[tuple[float, int], ...]:
        """Return the percentiles of a pattern."""
        used = np.nonzero(self.bins)[0]
        values = np.maximum(1, np.rint(2.0 ** (used / _BINS_PER_OCTAVE))).astype(np.int64)
        return percentiles_of(values, self.bins[used], PERCENTS)

    def percentile(self, percent: float) -> int:
        """Return the length that so many percent do not exceed."""
        limits = np.cumsum(self.bins)
        found: np.intp = np.searchsorted(limits, percent / 100 * limits[-1], side="left")
        return max(1, round(2.0 ** (int(found) / _BINS_PER_OCTAVE)))


@dataclass
class ModelSummary:
    """Measures of one model."""

    requests: int = 0
    prompts: Lengths = field(default_factory=Lengths)
    outputs: Lengths = field(default_factory=Lengths)
    shared_tokens: int = 0
    """Prompt tokens that other requests of the group share."""
    grouped: int = 0
    """Requests with a prefix group."""
    gaps: int = 0
    gap_sum: float = 0.0
    gap_squares: float = 0.0
    last: float | None = None

    @property
    def shared_share(self) -> float:
        """Part of the prompt tokens that other requests share."""
        return self.shared_tokens / max(self.prompts.total, 1)

    @property
    def gap_cv(self) -> float | None:
        """Coefficient of variation of the gaps between arrivals; None for fewer than two gaps."""
        if self.gaps < 2 or self.gap_sum <= 0:
            return None
        mean = self.gap_sum / self.gaps
        return math.sqrt(max(self.gap_squares / self.gaps - mean**2, 0.0)) / mean

    def add(self, arrivals: Arrivals) -> None:
        """Count requests of this model, which follow earlier ones in time."""
        if not len(arrivals):
            return
        self.requests += len(arrivals)
        self.prompts.add(arrivals.prompt_tokens)
        self.outputs.add(arrivals.output_tokens)
        self.shared_tokens += int(arrivals.prefix_tokens.sum(dtype=np.int64))
        self.grouped += int(np.sum(arrivals.prefix >= 0))
        at = arrivals.seconds
        gaps = np.diff(at) if self.last is None else np.diff(np.append(self.last, at))
        self.gaps += len(gaps)
        self.gap_sum += float(gaps.sum())
        self.gap_squares += float((gaps**2).sum())
        self.last = float(at[-1])


@dataclass
class Summary:
    """Measures of traffic."""

    seconds: float
    models: dict[str, ModelSummary]
    teams: dict[str, int]
    """Requests by team."""
    regions: dict[str, int]
    """Requests by region."""
    hours: NDArray[np.int64]
    """Requests of each hour since the start, of at most a year."""
    windows: NDArray[np.int64]
    """Requests of each ten minutes."""

    @property
    def requests(self) -> int:
        """Number of requests."""
        return sum(each.requests for each in self.models.values())

    @property
    def rate(self) -> float:
        """Mean requests per second."""
        return self.requests / max(self.seconds, 1.0)

    def rates(self) -> list[float]:
        """Return the requests per second of each hour; the last hour may be shorter."""
        lengths = np.full(len(self.hours), _HOUR)
        lengths[-1] = max(self.seconds - _HOUR * (len(self.hours) - 1), 1.0)
        return [float(rate) for rate in self.hours / np.minimum(lengths, _HOUR)]

    @property
    def ten_minute_peak(self) -> float | None:
        """Highest whole ten minutes over their mean; None for less than an hour."""
        whole = self.windows[: int(self.seconds // _TEN_MINUTES)]
        if len(whole) < 6 or not whole.sum():
            return None
        return float(whole.max() / whole.mean())


def summary_of(traffic: Traffic) -> Summary:
    """Return the measures of all requests."""
    models = {name: ModelSummary() for name in traffic.models}
    teams, regions = np.zeros(len(traffic.teams) + 1), np.zeros(len(traffic.regions) + 1)
    hours = np.zeros(int(traffic.seconds // _HOUR) + 1, np.int64)
    windows = np.zeros(int(traffic.seconds // _TEN_MINUTES) + 1, np.int64)
    for chunk in traffic.chunks():
        for number, found in enumerate(models.values()):
            found.add(chunk[chunk.model == number] if len(models) > 1 else chunk)
        teams += np.bincount(chunk.team + 1, minlength=len(teams))
        regions += np.bincount(chunk.region + 1, minlength=len(regions))
        hours += _by_period(chunk, _HOUR, len(hours))
        windows += _by_period(chunk, _TEN_MINUTES, len(windows))
    return Summary(
        traffic.seconds,
        models,
        _named(traffic.teams, teams),
        _named(traffic.regions, regions),
        hours,
        windows,
    )


def _by_period(chunk: Arrivals, length: float, count: int) -> NDArray[np.int64]:
    index = np.minimum(chunk.seconds // length, count - 1).astype(np.int64)
    return np.bincount(index, minlength=count)


def _named(names: tuple[str, ...], counts: NDArray[np.float64]) -> dict[str, int]:
    """Return the counts by name; those without one are under an empty name."""
    found = {name: int(count) for name, count in zip(names, counts[1:], strict=True) if count}
    return found | ({"": int(counts[0])} if counts[0] and names else {})


def pattern_from(found: Summary) -> Pattern:
    """Return a pattern with these measures, of one kind of request per mix of all models.

    From a day on, it has the curve of the day: the mean of each hour over all days.
    """
    kind = _kind(list(found.models.values()))
    length = max(found.seconds / _HOUR, 0.01)
    hours = None
    rates = np.array(found.rates())
    whole = rates[: int(found.seconds // _HOUR)]
    if len(whole) >= 24:
        days = whole[: len(whole) // 24 * 24].reshape(-1, 24).mean(axis=0)
        hours = tuple(round(float(rate), 6) for rate in days)
    peak = found.ten_minute_peak if hours is not None else None
    teams = {name: float(count) for name, count in found.teams.items() if name}
    return Pattern.model_validate(
        {
            "models": {
                name: Rate(
                    requests_per_second=max(
                        round(each.requests / max(found.seconds, 1.0), 6), _LEAST_RATE
                    )
                )
                for name, each in found.models.items()
                if each.requests
            },
            "kinds": {"all": kind},
            "length_hours": round(min(length, 8_784.0), 6),
            "hours": hours,
            "ten_minute_peak": None if peak is None else round(min(max(peak, 1.0), 6.0), 3),
            "teams": teams,
            "regions": {
                name: {"share": float(count)} for name, count in found.regions.items() if name
            },
        },
        strict=False,
    )


def _kind(models: list[ModelSummary]) -> Kind:
    prompts, outputs = Lengths(), Lengths()
    for each in models:
        for total, own in ((prompts, each.prompts), (outputs, each.outputs)):
            total.total += own.total
            total.bins += own.bins
    largest = max(models, key=lambda each: each.requests)
    cv = 1.0 if largest.gap_cv is None else min(max(largest.gap_cv, _LEAST_CV), _MOST_CV)
    shared = sum(each.shared_tokens for each in models) / max(prompts.total, 1)
    documents = None
    if 0.005 <= shared < 0.7:  # as the shared part of three in four prompts
        documents = Documents(requests=4, share=round(shared / 0.75, 4))
    elif shared >= 0.7:
        documents = Documents(requests=100, share=round(min(shared / 0.99, 0.99), 4))
    return Kind(
        share=1,
        gap_cv=round(cv, 3),
        prompt_tokens=prompts.percentiles(),
        output_tokens=outputs.percentiles(),
        documents=documents,
    )
