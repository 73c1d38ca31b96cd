"""Fits the constants of `constants` to published measurements.

Least squares of the logarithms of published over calculated times, with a prior for each constant,
so that a few measurements move it little, and with weights that bound the influence of single rows
(Student's t). A model has effects of its own, with an engine and with a generation of hardware: a
model that one engine runs slowly does not make the engine slow. They are dropped afterwards.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.fit.tables import table
from planner.speed.constants import Table, engine_of, generation_of, labels, reached
from planner.speed.points import FIRST, THROUGHPUT, Point
from planner.speed.roofline_step import (
    REACHED,
    Array,
    Reached,
    Work,
    first_token_of_loop,
    stack,
    step,
)

_PRIORS: dict[str, tuple[float, float, dict[str, float]]] = {
    "compute": (0.55, 0.2, {"generation": 0.15, "generation at bits": 0.15, "engine": 0.1}),
    "attention": (0.4, 0.3, {"generation": 0.2}),
    "memory": (0.8, 0.07, {"generation": 0.08, "engine": 0.06, "kind at bits": 0.08}),
    "cache": (0.65, 0.25, {"generation": 0.15, "engine": 0.15}),
    "mixture": (2.0, 0.4, {"engine of kind": 0.2, "generation at bits": 0.2}),
    "scattered": (1.2, 0.2, {"engine of kind": 0.15, "generation at bits": 0.15}),
    "fixed": (1e-3, 0.4, {"engine of kind": 0.4}),
    "layer": (15e-6, 0.4, {"engine of kind": 0.3, "engine of type": 0.3, "type": 0.4,
                           "quantized": 0.3}),
    "each": (1e-5, 0.6, {"engine of kind": 0.8}),
    "latency": (1.0, 0.3, {"generation": 0.2, "engine": 0.2}),
    "link": (0.7, 0.3, {"generation": 0.2, "engine": 0.2}),
    "beside": (0.9, 0.15, {"engine": 0.25}),
    "first": (0.06, 0.6, {"engine of kind": 0.8}),
    "own": (1.0, 0.3, {"engine": 0.4}),
    "burst": (1.0, 0.4, {"engine": 0.6}),
}  # fmt: skip
"""By field of `Reached`: the prior value, the standard deviation of its logarithm, and those of its
effects, by kind of label. Set manually, once."""
_OF_MODEL = {
    False: {"engine": 0.15, "generation": 0.1, "": 0.08},
    True: {"engine": 0.3, "generation": 0.2},
}
"""Standard deviations of a model's own effects, on times to the first token or on others."""
_EXPECTED = {False: 0.12, True: 0.35}
"""Residuals to expect, in the same way."""
_FREEDOM = 3
"""Degrees of freedom of Student's t."""
_MOST_OF_CLUSTER = 12
"""Points that a model on an accelerator with an engine counts as, at most."""
_MOST_FITTED = 24
"""Points of such a cluster that are fitted, spread evenly over it: more of them add little."""
_OFFLINE = 0.25
"""Weight of throughput whose batch is not stated."""
_LARGEST_MOVE, _SMALLEST_MOVE = 0.7, 2e-3
_MOVES = 15
_DELTA = 1e-4


def model_of(point: Point) -> str:
    """Return the name under which a model's points are left out: its size, at any precision."""
    return f"{point.shape.parameters_billion:g}"


def is_derived(point: Point) -> bool:
    """Return whether a throughput follows from the times of the same row."""
    row = point.row
    has_time = bool(row["tpot_ms"]) and row["tpot_stat"] != "NTPOT" and "concurrent" in row["load"]
    return point.quantity == THROUGHPUT and has_time


def published_seconds(point: Point) -> float:
    """Return the time to the first token, or the mean time of a step."""
    if point.quantity == THROUGHPUT:
        return point.sequences * point.replicas / point.published
    return point.published / 1e3


@dataclass(frozen=True)
class Loads:
    """Loads of points; each field has one entry per point."""

    sequences: Array
    asked: Array
    waves: Array
    is_first: NDArray[np.bool_]
    """Whether a point is a time to the first token."""

    def take(self, index: NDArray[np.intp]) -> "Loads":
        """Return a selection of entries."""
        return Loads(*(getattr(self, each.name)[index] for each in fields(self)))


def loads_of(found: Sequence[Point]) -> Loads:
    """Return the loads of points."""
    sequences, asked, waves = (
        np.array([getattr(point, name) for point in found], dtype=np.float64)
        for name in ("sequences", "asked", "waves")
    )
    is_first = np.array([point.quantity == FIRST for point in found], dtype=np.bool_)
    return Loads(sequences, asked, waves, is_first)


def calculated(one: Work, loads: Loads) -> Array:
    """Return the time that each point measures, with the constants in `one`, in seconds."""
    made = step(one, loads.sequences)
    first = first_token_of_loop(one, made, loads.sequences, loads.asked, loads.waves)
    return np.where(loads.is_first, first, made.seconds)


class Fit:
    """Points, prepared for fits with and without some of them."""

    def __init__(self, found: Sequence[Point]) -> None:
        """Take the points that measure a time by themselves."""
        self.points = _thinned([point for point in found if not is_derived(point)])
        self.work = stack([point.work for point in self.points])
        self.target: Array = np.log([published_seconds(point) for point in self.points])
        self.loads = loads_of(self.points)
        self._names: dict[tuple[str, str, str], int] = {}
        self._mean: list[float] = []
        self._deviation: list[float] = []
        found_labels = [_labels(point) for point in self.points]
        self._columns = {
            field: np.array([self._of_field(field, one) for one in found_labels])
            for field in REACHED
        }
        own = [self._of_model(point) for point in self.points]
        most = max(map(len, own))
        self._own = np.array([[*each, *[each[-1]] * (most - len(each))] for each in own])
        self._own_count = np.array([len(each) for each in own])
        self._weights = _weights(self.points)

    def _index(self, name: tuple[str, str, str], mean: float, deviation: float) -> int:
        if name not in self._names:
            self._names[name] = len(self._mean)
            self._mean.append(mean)
            self._deviation.append(deviation)
        return self._names[name]

    def _of_field(self, field: str, found: Mapping[str, str]) -> list[int]:
        value, deviation, effects = _PRIORS[field]
        base = self._index((field, "", ""), float(np.log(value)), deviation)
        return [
            base, *(self._index((field, kind, found[kind]), 0.0, each)
                    for kind, each in effects.items())
        ]  # fmt: skip

    def _of_model(self, point: Point) -> list[int]:
        is_first = point.quantity == FIRST
        name = model_of(point)
        engine = f"{name} {engine_of(point.row['engine'])}"
        texts = {
            "engine": engine,
            "generation": f"{engine} {generation_of(point.row['accelerator'])}",
            "": name,
        }
        return [
            self._index((f"model {is_first}", kind, texts[kind]), 0.0, deviation)
            for kind, deviation in _OF_MODEL[is_first].items()
        ]

    def solve(self, used: NDArray[np.bool_] | None = None, begin: Array | None = None) -> Array:
        """Return the logarithms of all constants.

        Args:
            used: Points to fit to; None for all.
            begin: Where to begin, such as at the fit to all points.
        """
        at = np.flatnonzero(np.ones(len(self.points), bool) if used is None else used)
        mean, precision = np.array(self._mean), np.array(self._deviation) ** -2.0
        now: Array = mean.copy() if begin is None else begin.copy()
        target, loads, work = self.target[at], self.loads.take(at), self.work.take(at)
        expected = np.where(loads.is_first, _EXPECTED[True], _EXPECTED[False])
        for _ in range(_MOVES):
            result, slopes = self._slopes(now, at, work, loads)
            away = target - result
            weight = self._weights[at] * (_FREEDOM + 1) / (_FREEDOM + (away / expected) ** 2)
            weight = weight / expected**2
            weighted = slopes * weight[:, None]
            matrix = weighted.T @ slopes + np.diag(precision)
            move = np.linalg.solve(matrix, weighted.T @ away + precision * (mean - now))
            now = np.asarray(now + np.clip(move, -_LARGEST_MOVE, _LARGEST_MOVE), dtype=np.float64)
            if np.abs(move).max() < _SMALLEST_MOVE:
                break
        return now

    def _slopes(
        self, now: Array, at: NDArray[np.intp], work: Work, loads: Loads
    ) -> tuple[Array, Array]:
        """Return the logarithms of times, and their derivatives by each constant."""
        work = _with(
            work, {name: np.exp(now[self._columns[name][at]].sum(axis=1)) for name in REACHED}
        )
        before = np.log(calculated(work, loads))
        slopes = np.zeros((len(at), len(now)))
        places = np.arange(len(at))
        for name in REACHED:
            moved = replace(work, **{name: getattr(work, name) * (1 + _DELTA)})
            slope = (np.log(calculated(moved, loads)) - before) / _DELTA
            for column in self._columns[name][at].T:
                slopes[places, column] += slope
        result = before
        for place, column in enumerate(self._own[at].T):
            counts = np.where(place < self._own_count[at], 1.0, 0.0)
            slopes[places, column] += counts
            result = result + counts * now[column]
        return result, slopes

    def constants(self, now: Array) -> dict[str, Any]:
        """Return fitted constants as a `constants.Table`, without the effects of models."""
        made: dict[str, Any] = {}
        for (field, kind, label), index in self._names.items():
            if field.startswith("model"):
                continue
            one = made.setdefault(field, {"base": 0.0, "factors": {}})
            value = float(f"{np.exp(now[index]):.4g}")
            if kind:
                one["factors"].setdefault(kind, {})[label] = value
            else:
                one["base"] = value
        return made

    def start(self, constants: Table) -> Array:
        """Return the logarithms of known constants, without effects of models."""
        now = np.array(self._mean)
        for (field, kind, label), index in self._names.items():
            if field in constants:
                one = constants[field]
                value = one["factors"].get(kind, {}).get(label, 1.0) if kind else one["base"]
                now[index] = np.log(value)
        return now


def with_constants(found: Sequence[Point], constants: Table) -> Work:
    """Return the work of points with other constants."""
    known: dict[tuple[str, ...], Reached] = {}  # many points have the same labels
    alike: list[Reached] = []
    for point in found:
        named = _labels(point)
        key = tuple(named.values())
        if key not in known:
            known[key] = reached(constants, named)
        alike.append(known[key])
    one = stack([point.work for point in found])
    return _with(one, {name: np.array([getattr(each, name) for each in alike]) for name in REACHED})


def fitted_table() -> Table:
    """Return the constants of the data."""
    return table("reached")["constants"]


def _with(one: Work, found: dict[str, Array]) -> Work:
    """Return the work with other constants; dense models have no effects of mixtures."""
    is_dense = one.mixture == 1.0
    of_mixtures = {name: np.where(is_dense, 1.0, found[name]) for name in ("mixture", "scattered")}
    return replace(one, **(found | of_mixtures))


def _labels(point: Point) -> dict[str, str]:
    row = point.row
    engine = engine_of(row["engine"])
    return labels(engine, row["accelerator"], point.shape.bits, is_mixture=point.shape.is_mixture)


def clusters(found: Sequence[Point]) -> NDArray[np.intp]:
    """Return the number of a point's model, engine, accelerator and quantity."""
    names = [
        f"{model_of(point)} {engine_of(point.row['engine'])} {point.row['accelerator']} "
        f"{point.quantity == FIRST}"
        for point in found
    ]
    return np.unique(names, return_inverse=True)[1]


def _thinned(found: Sequence[Point]) -> list[Point]:
    """Return the points without some of large clusters."""
    kept: list[int] = []
    numbers = clusters(found)
    for number in np.unique(numbers):
        index = np.flatnonzero(numbers == number)
        count = min(len(index), _MOST_FITTED)
        kept += index[np.linspace(0, len(index) - 1, count).round().astype(int)].tolist()
    return [found[index] for index in sorted(kept)]


def _weights(found: Sequence[Point]) -> Array:
    numbers = clusters(found)
    counts = np.bincount(numbers)[numbers]
    offline = np.array([0.0 if "concurrent" in point.row["load"] else 1.0 for point in found])
    return np.minimum(1.0, _MOST_OF_CLUSTER / counts) * np.where(offline > 0, _OFFLINE, 1.0)
