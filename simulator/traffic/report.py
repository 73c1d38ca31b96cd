"""Results of a replay: counts, rates and percentiles."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from simulator.traffic.records import Outcome, Record


@dataclass(frozen=True)
class Percentiles:
    """The median and the tail percentiles of a time, in milliseconds."""

    p50: float
    p95: float
    p99: float

    @classmethod
    def of(cls, seconds: Iterable[float]) -> "Percentiles":
        """Return the percentiles of times in seconds, interpolated between neighbors.

        Raises:
            ValueError: There are no times.
        """
        times = sorted(seconds)
        return cls(*(round(1000 * percentile(times, share), 3) for share in (0.50, 0.95, 0.99)))

    @classmethod
    def of_any(cls, seconds: Iterable[float]) -> "Percentiles | None":
        """Return the percentiles of times in seconds; None if there are none."""
        times = [*seconds]
        return cls.of(times) if times else None


def percentile(ordered: list[float], share: float) -> float:
    """Return a percentile of ordered values.

    Raises:
        ValueError: There are no values.
    """
    if not ordered:
        raise ValueError("ordered: must have a value, got none")
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


@dataclass(frozen=True)
class Slo:
    """A service level objective, in milliseconds."""

    ttft_ms: float
    tpot_ms: float

    def holds(self, record: Record) -> bool:
        """Return whether a response meets the objective; a response of one token has no TPOT."""
        if record.outcome is not Outcome.ANSWERED or record.ttft is None:
            return False
        return record.ttft * 1000 <= self.ttft_ms and (record.tpot or 0) * 1000 <= self.tpot_ms


@dataclass(frozen=True)
class Summary:
    """Totals of a replay, in the engine's time (see `Report.speed`)."""

    sent: int
    answered: int
    refused: int
    lost: int
    seconds: float
    """Time from the first request to the last response."""
    throughput_tok_s: float
    """Output tokens of complete responses per second, including the drain at the end."""
    ttft_ms: Percentiles | None
    """Times to first token; None if no response was streamed."""
    tpot_ms: Percentiles | None
    """Times per token after the first; None if no response was streamed."""
    ttft_mean_ms: float | None
    goodput: float | None
    """Responses per second that met the SLO; None without an SLO."""
    goodput_share: float | None
    """Fraction of all sent requests that met the SLO."""
    errors: dict[str, int]
    """Refused and lost requests by reason."""
    lag_p99_ms: float
    """Delay of the client itself, in real milliseconds; large values invalidate a run. 0 without
    requests."""

    def as_dict(self) -> dict[str, Any]:
        """Return the summary in JSON-compatible form."""
        return asdict(self)


@dataclass(frozen=True)
class Report:
    """Every request of a replay."""

    records: tuple[Record, ...]
    speed: float = 1.0
    """Engine seconds per second of real time; records are in engine seconds."""

    def of(self, outcome: Outcome) -> list[Record]:
        """Return the requests with an outcome."""
        return [record for record in self.records if record.outcome is outcome]

    @property
    def lost(self) -> list[Record]:
        """Number of requests without response or error."""
        return self.of(Outcome.LOST)

    def replicas(self) -> dict[str, int]:
        """Return the number of responses of each pod."""
        return dict(Counter(r.replica for r in self.of(Outcome.ANSWERED)))

    def between(self, start: float, end: float) -> "Report":
        """Return the requests due in an interval."""
        kept = tuple(r for r in self.records if start <= r.due < end)
        return Report(kept, self.speed)

    def shifted(self, seconds: float) -> "Report":
        """Return the same requests with all times later by some seconds."""
        names = ("due", "sent", "done", "first", "last")

        def later(record: Record) -> Record:
            times = {name: getattr(record, name) for name in names}
            known = {name: time + seconds for name, time in times.items() if time is not None}
            return replace(record, **known)

        return Report(tuple(later(record) for record in self.records), self.speed)

    def steady_tok_s(self, seconds: float) -> float:
        """Return the output tokens per second received while requests were being sent.

        A response's tokens are distributed evenly between its first and its last. Unlike the
        throughput of a summary, this does not depend on how long the slowest response takes.

        Args:
            seconds: duration of sending.
        """
        came = 0.0
        for record in self.of(Outcome.ANSWERED):
            if record.first is None or record.last is None or record.first >= seconds:
                continue
            took = record.last - record.first
            share = 1.0 if record.last <= seconds else (seconds - record.first) / took
            came += record.tokens * share
        return round(came / seconds, 1)

    def summary(self, slo: Slo | None = None) -> Summary:
        """Return the totals and, with an SLO, the goodput."""
        answered = self.of(Outcome.ANSWERED)
        start = min((r.due for r in self.records), default=0.0)
        seconds = max((r.done for r in self.records), default=0.0) - start
        ttft = [r.ttft for r in answered if r.ttft is not None]
        good = sum(slo.holds(r) for r in answered) if slo else None
        errors = Counter(r.error for r in self.records if r.error)
        lags = sorted(r.lag / self.speed for r in self.records)
        return Summary(
            sent=len(self.records),
            answered=len(answered),
            refused=len(self.of(Outcome.REFUSED)),
            lost=len(self.lost),
            seconds=round(seconds, 3),
            throughput_tok_s=round(sum(r.tokens for r in answered) / seconds, 1) if seconds else 0,
            ttft_ms=Percentiles.of_any(ttft),
            tpot_ms=Percentiles.of_any(r.tpot for r in answered if r.tpot is not None),
            ttft_mean_ms=round(1000 * sum(ttft) / len(ttft), 3) if ttft else None,
            goodput=None if good is None else round(good / seconds, 3) if seconds else 0.0,
            goodput_share=None if good is None else round(good / max(1, len(self.records)), 4),
            errors=dict(errors),
            lag_p99_ms=round(1000 * percentile(lags, 0.99), 3) if lags else 0.0,
        )
