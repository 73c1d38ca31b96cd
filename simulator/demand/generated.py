"""Requests made from a pattern."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.demand.arrivals import MOST, Arrivals
from simulator.demand.pattern import Pattern, table
from simulator.demand.streams import (
    CURVES,
    Curve,
    Stream,
    block_of,
    choice,
    groups_of,
    merged,
)

_TEN_MINUTES = 600.0
_HOUR = 3600.0
_DAY = 86_400.0
_SPREAD = 0.24
"""Standard deviation of ten-minute rates against the mean curve of their day, of the small language
model in ServeGen's traces (github.com/alibaba/ServeGen, data/language/m-small)."""


@dataclass(frozen=True)
class Generated:
    """Traffic of a pattern."""

    pattern: Pattern

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models."""
        return tuple(self.pattern.models)

    @property
    def teams(self) -> tuple[str, ...]:
        """Names of the teams."""
        return tuple(self.pattern.teams)

    @property
    def regions(self) -> tuple[str, ...]:
        """Names of the clients' regions."""
        return tuple(self.pattern.regions)

    @property
    def seconds(self) -> float:
        """Length of the traffic."""
        return self.pattern.length_hours * _HOUR

    @property
    def expected(self) -> float:
        """Expected number of requests."""
        return sum(stream.curve.total for stream in self._streams())

    def chunks(self, most: int = MOST) -> Iterator[Arrivals]:
        """Yield all requests in the order of arrival, in chunks of at most `most`."""
        return merged(self._streams(), most)

    def _streams(self) -> list[Stream]:
        pattern = self.pattern
        origins = list(pattern.regions.values())
        all_origins = sum(origin.share for origin in origins) or 1.0
        places = [(n, each.share / all_origins, each.hours_ahead) for n, each in enumerate(origins)]
        all_kinds = sum(kind.share for kind in pattern.kinds.values())
        count = len(pattern.models) * len(pattern.kinds) * max(1, len(places))
        block = block_of(count)
        tables = [
            (None if kind.prompt_tokens is None else table(kind.prompt_tokens),
             table(kind.output_tokens))
            for kind in pattern.kinds.values()
        ]  # fmt: skip
        found: list[Stream] = []
        for model, (name, rate) in enumerate(pattern.models.items()):
            parts = pattern.teams if rate.teams is None else rate.teams
            weights = [parts.get(team, 0.0) for team in pattern.teams]
            teams = choice(weights) if any(weights) else None
            for region, place_share, ahead in places or [(-1, 1.0, 0.0)]:
                shape = curve_of(pattern, name, ahead)
                for kind, lengths in zip(pattern.kinds.values(), tables, strict=True):
                    mean = rate.requests_per_second * place_share * kind.share / all_kinds
                    found.append(
                        Stream(
                            len(found),
                            pattern.seed,
                            model,
                            region,
                            kind,
                            Curve(shape.seconds, shape.requests * mean),
                            block,
                            teams,
                            *lengths,
                            rate.context,
                            groups_of(kind, mean),
                        )
                    )
        return found


def curve_of(pattern: Pattern, model: str, hours_ahead: float = 0.0) -> Curve:
    """Return the curve of a model with a mean of 1 request/s on the first day, without bursts."""
    length = pattern.length_hours * _HOUR
    bursts = [each for each in pattern.bursts if model in (each.models or pattern.models)]
    edges = [np.arange(0, length, _TEN_MINUTES), np.array([length])]
    for burst in bursts:
        start = burst.at_hours * _HOUR
        edges.append(np.clip([start, start + burst.minutes * 60], 0, length))
    knots = np.unique(np.concatenate(edges))
    middles = (knots[:-1] + knots[1:]) / 2
    rates = _usual_rates(pattern, model, middles, hours_ahead)
    for burst in bursts:
        start = burst.at_hours * _HOUR
        within = (middles >= start) & (middles < start + burst.minutes * 60)
        rates = np.where(within, rates * burst.factor, rates)
    return Curve(knots, np.concatenate([[0.0], np.cumsum(rates * np.diff(knots))]))


def _usual_rates(
    pattern: Pattern, model: str, at: NDArray[np.float64], hours_ahead: float
) -> NDArray[np.float64]:
    """Return the rates at some times without bursts, with a mean of 1 on the first day."""
    hours = np.array(pattern.hours if pattern.hours is not None else np.ones(24), float)
    hours = hours / hours.mean()
    days = (at // _DAY).astype(int)
    local = at + hours_ahead * _HOUR
    rates = hours[(local // _HOUR).astype(int) % 24]
    if pattern.days is not None:
        rates = rates * np.array(pattern.days)[days % 7]
    rates = rates * (1 + pattern.growth_per_day) ** days
    if pattern.ten_minute_peak is not None:
        names = list(pattern.models)
        varied = [
            _varied(hours, pattern.ten_minute_peak, pattern.seed, names.index(model), day)
            for day in range(int(days[-1]) + 2)
        ]
        windows = (local // _TEN_MINUTES).astype(int)
        first = varied[0][windows % 144]  # a region that is ahead begins within the day
        rates = rates * np.where(
            windows < 0, first, np.concatenate(varied)[np.maximum(windows, 0) % (144 * len(varied))]
        )
    return rates


def _varied(
    hours: NDArray[np.float64], peak: float, seed: int, model: int, day: int
) -> NDArray[np.float64]:
    """Return the factors of a day's windows of ten minutes, with a mean of 1 in each hour.

    One window of the busiest hour has the peak; the others stay below it.
    """
    random = np.random.default_rng([seed, CURVES, model, day])
    factors = np.exp(random.normal(0, _SPREAD, (24, 6)))
    factors = factors / factors.mean(axis=1, keepdims=True)
    busiest = int(np.argmax(hours))
    highest = min(peak / hours[busiest], 6.0)
    if highest > 1:
        window = int(random.integers(6))
        rest = np.delete(factors[busiest], window)
        rest *= (6 - highest) / rest.sum()
        factors[busiest] = np.insert(rest, window, highest)
    with np.errstate(divide="ignore"):
        limits = np.maximum(peak / hours, 1.0)[:, None]
    for _ in range(8):  # what is above the peak goes to the rest of its hour
        factors = np.minimum(factors, limits)
        factors = factors / factors.mean(axis=1, keepdims=True)
    return factors.ravel()
