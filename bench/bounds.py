"""The bounds of `bench`: what a subject may take at most, on two idle cores.

Subjects with bounds of their own are in their modules: routing, confirm and fairness.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from bench.accuracy import figure
from planner.speed.points import BETWEEN, FIRST, QUANTITIES

Row = dict[str, Any]


@dataclass(frozen=True)
class Bound:
    """The largest allowed value of one figure."""

    name: str
    value: Callable[[list[Row]], float | None]
    """Figure of a subject's rows; `None` if they do not have it."""
    at_most: float


@dataclass(frozen=True)
class Check:
    """A bound with the value that a run measured."""

    name: str
    at_most: float
    value: float | None

    @property
    def passes(self) -> bool:
        """Return whether the bound is met. A figure that is missing does not meet it."""
        return self.value is not None and self.value <= self.at_most

    def as_dict(self) -> dict[str, Any]:
        """Return the check as it is written to the result file."""
        held = {"name": self.name, "at_most": self.at_most, "value": self.value}
        return {**held, "pass": self.passes}


def check(subject: str, rows: list[Row]) -> list[Check]:
    """Return the checks of a subject; none if it has no bounds."""
    return [Check(one.name, one.at_most, one.value(rows)) for one in BOUNDS.get(subject, ())]


def _of(key: str, name: object, *fields: str) -> Callable[[list[Row]], float | None]:
    """Return a figure: the sum of fields of the row whose `key` is `name`."""

    def value(rows: list[Row]) -> float | None:
        row = next((row for row in rows if row.get(key) == name), None)
        if row is None or not row.keys() >= set(fields):
            return None
        return round(sum(float(row[field]) for field in fields), 3)

    return value


def _largest(field: str) -> Callable[[list[Row]], float | None]:
    """Return a figure: the largest absolute value of a field."""
    return lambda rows: max((abs(row[field]) for row in rows if field in row), default=None)


def _replay(*routings: str) -> Callable[[list[Row]], float | None]:
    """Return a figure: the longest processor time of a request by routings, in microseconds."""

    def value(rows: list[Row]) -> float | None:
        some = [row for row in rows if any(name in row["routing"] for name in routings)]
        return max((round(1e6 / row["requests_per_s"], 2) for row in some), default=None)

    return value


def _difference(field: str) -> Callable[[list[Row]], float | None]:
    """Return what the callout adds to a percentile, in milliseconds."""
    through, without = _of("what", "through the callout", field), _of("what", "without it", field)

    def value(rows: list[Row]) -> float | None:
        a, b = through(rows), without(rows)
        return None if a is None or b is None else round(a - b, 3)

    return value


def _ratio_error(field: str) -> Callable[[list[Row]], float | None]:
    """Return the error of a ratio against the published pair from one cluster, in percent."""

    def value(rows: list[Row]) -> float | None:
        found = [row for row in rows if str(row.get("arm", "")).endswith(", one cluster")]
        return abs(found[0][field]["error_percent"]) if found and field in found[0] else None

    return value


def _intervals(quantity: str) -> Bound:
    """Return the bound of how far the share of intervals that hold is from what they promise."""
    held = figure("held_percent", intervals=quantity)

    def value(rows: list[Row]) -> float | None:
        found = held(rows)
        return None if found is None else round(abs(found - 80), 1)

    return Bound(f"80 % intervals, model left out, {quantity}, points from 80", value, 4)


def _planner(
    engine: str, quantity: str, title: str, median: float, nine_in_ten: float
) -> Iterator[Bound]:
    """Yield the bounds of the planner's errors for a quantity of an engine, in percent."""
    for field, name, at_most in (
        ("median_percent", f"{title}, median error in %", median),
        ("nine_in_ten_percent", "the same, nine in ten below, %", nine_in_ten),
    ):
        value = figure(field, engine=engine, quantity=quantity, estimates="planner")
        yield Bound(name, value, at_most)


_DENSE = "all of dense models"
"""Row of `engine`. Its bounds are the median and P99 errors that the best published simulator has
over 36 runs that it was not fitted to: BLIS, inference-sim's blog of 2026-08-06."""
BOUNDS: dict[str, tuple[Bound, ...]] = {
    "preview": (
        Bound("preview of prod, seconds", _of("stack", "prod", "preview_s"), 10.0),
        Bound("preview of prod, times the engine's floor", _of("stack", "prod", "ratio"), 2.5),
    ),
    "serving": (Bound("preview of five models, seconds", _of("models", 5, "preview_s"), 4.0),),
    "verdict": (Bound("verdict of prod, seconds", _of("stack", "prod", "verdict_s"), 30.0),),
    "setup": (
        Bound("make up, fresh clone, seconds", _of("make", "up, fresh clone", "wall_s"), 45),
    ),
    "scale": (
        Bound(
            "1,000 nodes, 2,000 pods, seconds", _of("nodes", 1000, "nodes_ready", "pods_ready"), 45
        ),
    ),
    "engine": (
        Bound(
            "dense runs, mean answer, largest error in %", _of("run", _DENSE, "e2e_largest"), 6.7
        ),
        Bound("dense runs, P99 of answers, error in %", _of("run", _DENSE, "e2e_p99_largest"), 9.2),
        Bound(
            "dense runs, time per token, median error in %", _of("run", _DENSE, "tpot_median"), 7.1
        ),
        Bound(
            "dense runs, first token, median error in %", _of("run", _DENSE, "ttft_median"), 17.6
        ),
    ),
    "disagg": (
        Bound("disaggregated, time to first token, error in %", _ratio_error("ttft_mean_ms"), 30.0),
        Bound("disaggregated, time per token, error in %", _ratio_error("tpot_mean_ms"), 30.0),
        Bound("disaggregated, whole answer, error in %", _ratio_error("e2e_mean_s"), 30.0),
    ),
    "gateway": (
        Bound("gateway hop, p50, ms", _of("what", "gateway hop (pair by pair)", "p50_ms"), 2.0),
    ),
    "accuracy": (
        *_planner("vllm", BETWEEN, "vLLM, model left out, ms between tokens", 10, 30),
        *_planner("vllm", FIRST, "vLLM, model left out, ms to first token", 30, 90),
        *_planner("all", FIRST, "all engines, model left out, ms to first token", 30, 90),
        Bound(
            "wrong accelerator, model left out, %", figure("wrong_chip_percent", contests="all"), 3
        ),
        *map(_intervals, QUANTITIES),
    ),
    "replays": (
        Bound("round robin and least request, µs per request", _replay("robin", "least"), 2.0),
        Bound("picker, µs per request", _replay("picker"), 4.0),
    ),
    "picker": (
        Bound(
            "modeled picker, tokens per second, largest error in %",
            _largest("steady_error_percent"),
            3.0,
        ),
        Bound(
            "modeled picker, answers within the SLO, largest error in points",
            _largest("goodput_error_points"),
            3.0,
        ),
    ),
    "callout": (
        Bound("callout, added to p50, ms", _difference("p50_ms"), 2.0),
        Bound("callout, added to p99, ms", _difference("p99_ms"), 8.0),
    ),
}
"""Bounds by subject. docs/benchmarks.md shows which of them are met."""
