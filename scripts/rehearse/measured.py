"""What one rehearsal of a sweep measured: small, so that it can come from another process."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scripts.rehearse.result import spent_by, usd_by_model
from simulator.demand.arrivals import MOST, Arrivals, Traffic
from simulator.rehearsal.accounts import PERCENTILE
from simulator.rehearsal.description import Platform
from simulator.rehearsal.engines import engines_of
from simulator.rehearsal.run import NOT_CAPACITY, Rehearsal, usd_per_hour

_ALLOWED = 1 - PERCENTILE
_DIGITS = 9


@dataclass(frozen=True)
class ModelMeasure:
    """A model in a rehearsal."""

    usd: float
    """Accelerators of its replicas, and those that were started and not used, at list price, and
    its fallback at the prices of `clients.prices`."""
    sent: int
    failed: int
    """Requests without a whole answer, for lack of replicas."""
    late: tuple[tuple[str, int, int], ...]
    """Objective, answers that took longer, and answers."""

    @property
    def late_share(self) -> float:
        """Largest share of late answers among the objectives."""
        return max((late / answered if answered else 1.0 for _, late, answered in self.late),
                   default=0.0)  # fmt: skip

    @property
    def failed_share(self) -> float:
        """Share of failed requests."""
        return self.failed / self.sent if self.sent else 0.0

    def excess(self, most_failed: float) -> float:
        """Return by how much shares exceed what is allowed; 0 if everything is kept."""
        late = sum(
            max(0.0, (late / answered if answered else 1.0) - _ALLOWED)
            for _, late, answered in self.late
        )
        return round(late + max(0.0, self.failed_share - most_failed), _DIGITS)


@dataclass(frozen=True)
class Measured:
    """A rehearsal."""

    models: dict[str, ModelMeasure]
    usd: float
    """All accelerators, also those that no replica used, and fallbacks."""
    spot_share: float
    """Share of the machine time on spot or flex-start machines."""
    without_price_hours: float
    hours: float

    def excess(self, models: tuple[str, ...], most_failed: float) -> float:
        """Return by how much some models exceed what is allowed."""
        return sum(self.models[each].excess(most_failed) for each in models)

    def usd_of(self, models: tuple[str, ...]) -> float:
        """Return the dollars of some models."""
        return round(sum(self.models[each].usd for each in models), 6)


def measured(platform: Platform, traffic: Traffic) -> Measured:
    """Rehearse a platform, and return what that measured.

    Raises:
        ValueError: The traffic has a model that the platform lacks.
    """
    found = Rehearsal(platform, traffic, engines_of(platform))
    found.run()
    return measure_of(found)


def measure_of(found: Rehearsal) -> Measured:
    """Return what a rehearsal that has ended measured."""
    spent, unused = spent_by(found), _unused(found)
    fallbacks = usd_by_model(found.gates.fallback_usd)
    models: dict[str, ModelMeasure] = {}
    for model in found.platform.models:
        outcomes = [one for (name, _), one in found.outcomes.items() if name == model.name]
        sent = sum(one.sent for one in outcomes)
        answered = sum(one.answers for one in outcomes)
        ignored = sum(one.reasons[reason] for one in outcomes for reason in NOT_CAPACITY)
        late: list[tuple[str, int, int]] = []
        if model.slo.ttft_p95_ms is not None and sent:
            late.append(("ttft_p95_ms", sum(one.late_ttft for one in outcomes), answered))
        if model.slo.tpot_p95_ms is not None and sent:
            late.append(("tpot_p95_ms", sum(one.late_tpot for one in outcomes), answered))
        models[model.name] = ModelMeasure(
            spent.by_model.get(model.name, 0.0)
            + unused.get(model.name, 0.0)
            + fallbacks.get(model.name, 0.0),
            sent,
            sum(one.failed for one in outcomes) - ignored,
            tuple(late),
        )
    total = sum(found.machines.values())
    taken = sum(s for bought, s in found.machines.items()
                if bought.provisioning in ("spot", "flex-start"))  # fmt: skip
    return Measured(
        models,
        spent.total + sum(fallbacks.values()),
        taken / total if total else 0.0,
        sum(spent.without_price.values()),
        found.traffic.seconds / 3600,
    )


def _unused(found: Rehearsal) -> dict[str, float]:
    """Return the dollars of machines that no replica used, divided among the models they suit."""
    names = {
        version: model.name for model in found.platform.models for version, _ in model.versions
    }
    usd: dict[str, float] = {}
    for bought, seconds in found.machines.items():
        price = usd_per_hour(bought)
        if bought.pool in names or price is None:
            continue
        suited = {
            names[each.pool]
            for each in found.platform.workloads
            if each.region == bought.region and bought.machine in each.hardware
        }
        for name in suited:
            usd[name] = usd.get(name, 0.0) + price * seconds / 3600 / len(suited)
    return usd


@dataclass(frozen=True)
class Period:
    """A part of some traffic, as traffic of its own."""

    whole: Traffic
    start: float
    """Seconds since the start of the whole."""
    seconds: float
    models: tuple[str, ...] = field(init=False)
    teams: tuple[str, ...] = field(init=False)
    regions: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Take the names of the whole."""
        for name in ("models", "teams", "regions"):
            object.__setattr__(self, name, getattr(self.whole, name))

    def chunks(self, most: int = MOST) -> Iterator[Arrivals]:
        """Yield the requests of the period in the order of arrival."""
        end = self.start + self.seconds
        for part in self.whole.chunks(most):
            first, last = np.searchsorted(part.seconds, (self.start, end), side="left")
            if last > first:
                yield _moved(part[int(first) : int(last)], -self.start)
            if len(part) and part.seconds[-1] >= end:
                return


@dataclass(frozen=True)
class Kept:
    """A period whose requests are in memory."""

    models: tuple[str, ...]
    teams: tuple[str, ...]
    regions: tuple[str, ...]
    seconds: float
    parts: tuple[Arrivals, ...]

    def chunks(self, most: int = MOST) -> Iterator[Arrivals]:
        """Yield the requests in the order of arrival."""
        for part in self.parts:
            for first in range(0, len(part), most):
                yield part[first : first + most]


def _moved(part: Arrivals, seconds: float) -> Arrivals:
    columns: list[Any] = [getattr(part, name) for name in part.__slots__]
    columns[0] = np.maximum(columns[0] + seconds, 0.0)
    return Arrivals(*columns)


def kept(period: Period, most: int) -> Traffic:
    """Return a period with its requests in memory, or itself if there are more than `most`."""
    parts: list[Arrivals] = []
    count = 0
    for part in period.chunks():
        count += len(part)
        if count > most:
            return period
        parts.append(part)
    return Kept(period.models, period.teams, period.regions, period.seconds, tuple(parts))


def busiest_end(traffic: Traffic, seconds: float) -> float:
    """Return the end of the busiest time of a length, on multiples of that length."""
    buckets = max(1, int(traffic.seconds // seconds))
    counts = np.zeros(buckets, np.int64)
    for part in traffic.chunks():
        at = np.minimum((part.seconds // seconds).astype(np.int64), buckets - 1)
        counts += np.bincount(at, minlength=buckets)
    return float((int(np.argmax(counts)) + 1) * seconds)
