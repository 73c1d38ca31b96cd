"""Errors of the estimates on held-out points.

Points are held out together, and estimated with constants that are fitted again without them. For
single points, which move no constant, the constants of the data are used.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cache
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.speed.constants import Table, engine_of
from planner.speed.correction import (
    correction,
    corrections_of,
    first_correction,
    gather,
    interval_key,
    reach_of,
    traits_of,
)
from planner.speed.fitting import (
    Fit,
    calculated,
    fitted_table,
    is_derived,
    loads_of,
    model_of,
    published_seconds,
    with_constants,
)
from planner.speed.points import (
    BETWEEN,
    FIRST,
    QUANTITIES,
    THROUGHPUT,
    Point,
    loops,
    points,
    points_of,
    split_of,
)
from planner.speed.roofline_step import Array, Work, first_token_of_loop, stack, step

_SPLITS = {"expert parallelism": "experts", "pipeline stages": "stages"}
TITLES = {"vllm": "vLLM", "sglang": "SGLang", "tensorrt": "TensorRT-LLM"}
"""Engines of published measurements, by the name that `engine_of` returns."""


@dataclass(frozen=True)
class Compared:
    """A point, and the estimate made without it."""

    point: Point
    estimated: float
    low: float
    """Lower end of the interval that should contain 80 % of the points."""
    high: float
    unknown: float = 1.0
    """What was not known about it: 0 beside many points of its model and engine, 1 without any."""

    @property
    def error(self) -> float:
        """Estimated divided by published value, minus one."""
        return self.estimated / self.point.published - 1

    @property
    def is_inside(self) -> bool:
        """Whether the published value is in the interval."""
        return self.low <= self.point.published <= self.high


@dataclass(frozen=True)
class Group:
    """Errors of a group of points."""

    name: str
    compared: tuple[Compared, ...]

    def of(self, quantity: str) -> "Group":
        """Return the errors of one quantity."""
        return self.where(lambda item: item.point.quantity == quantity)

    def where(self, is_wanted: Callable[[Compared], bool]) -> "Group":
        """Return the errors of some points."""
        return Group(self.name, tuple(item for item in self.compared if is_wanted(item)))

    @property
    def errors(self) -> list[float]:
        """Absolute errors in ascending order."""
        return sorted(abs(item.error) for item in self.compared)

    @property
    def median(self) -> float:
        """Median absolute error."""
        return median(self.errors)

    @property
    def nine_in_ten(self) -> float:
        """90th percentile of the absolute error."""
        return self.errors[int(0.9 * (len(self.errors) - 1))]

    @property
    def bias(self) -> float:
        """Median error, with its sign."""
        return median(item.error for item in self.compared)

    @property
    def inside(self) -> float:
        """Fraction of the points inside their 80 % interval."""
        return sum(item.is_inside for item in self.compared) / len(self.compared)

    @property
    def width(self) -> float:
        """Median factor from an estimate to the end of its interval."""
        return median(item.high / item.estimated for item in self.compared)


def family(point: Point) -> str:
    """Return engine and accelerator, such as `vLLM on tpu7x`."""
    return f"{TITLES[engine_of(point.row['engine'])]} on {point.row['accelerator']}"


LEFT_OUT: dict[str, Callable[[Point], str]] = {
    "point": lambda point: "|".join(point.row.values()),
    "model": model_of,
    "accelerator": lambda point: point.row["accelerator"],
}
"""Ways to hold out points together, each with a function that names the set of a point."""


@dataclass(frozen=True)
class _Estimates:
    """What is estimated about points by their times: between tokens, and to the first one."""

    between: Array
    first: Array
    unknown: Array
    """Of the quantity of each point."""

    def take(self, index: NDArray[np.intp]) -> "_Estimates":
        return _Estimates(self.between[index], self.first[index], self.unknown[index])


def _estimates(
    one: Work,
    found: Sequence[Point],
    between: tuple[Array, Array],
    first: tuple[Array, Array],
) -> _Estimates:
    """Return the estimates of points, by mean and what is unknown of both corrections."""
    loads = loads_of(found)
    made = step(one, loads.sequences)
    begun = first_token_of_loop(one, made, loads.sequences, loads.asked, loads.waves)
    unknown = np.where(loads.is_first, first[1], between[1])
    return _Estimates(made.seconds * np.exp(between[0]), begun * np.exp(first[0]), unknown)


def _compared(found: Sequence[Point], made: _Estimates) -> list[Compared]:
    wanted = gather([traits_of(point) for point in found])
    reach = {name: np.exp(reach_of(wanted, made.unknown, name)) for name in QUANTITIES}
    items: list[Compared] = []
    for index, point in enumerate(found):
        between, first = float(made.between[index]), float(made.first[index])
        value = {BETWEEN: between * 1e3, FIRST: first * 1e3}.get(
            point.quantity, _throughput(point, between, first)
        )
        factor = float(reach[point.quantity][index])
        items.append(
            Compared(point, value, value / factor, value * factor, float(made.unknown[index]))
        )
    return items


def _throughput(point: Point, between: float, first: float) -> float:
    """Return tokens per second: of a closed loop from both times, otherwise from the step."""
    if not is_derived(point):
        return point.sequences * point.replicas / between
    tokens = float(point.work.made[0])
    return point.sequences * point.replicas * tokens / (first + between * (tokens - 1))


@cache
def _fit() -> tuple[Fit, Array]:
    """Return all points, prepared, and their fit."""
    made = Fit(points())
    return made, made.solve(begin=made.start(fitted_table()))


@cache
def _constants_without(by: str, name: str) -> Table:
    """Return the constants that fit all points but those of one set."""
    if by == "point":
        return fitted_table()
    fit, every = _fit()
    kept = np.array([LEFT_OUT[by](point) != name for point in fit.points])
    return fit.constants(fit.solve(kept, every))


@cache
def left_out(by: str, only: str = "") -> Group:
    """Return every point, estimated from the points of all other sets.

    Args:
        by: Key of `LEFT_OUT`.
        only: Name of the only set to leave out and return; empty for all.
    """
    found = points()
    names = np.array([LEFT_OUT[by](point) for point in found])
    made: dict[str, tuple[NDArray[np.intp], _Estimates]] = {}
    held = _Held(found, fitted_table())
    for name in dict.fromkeys(names.tolist()):
        if only and name != only:
            continue
        away = np.flatnonzero(names == name)
        if by != "point":
            held = _Held(found, _constants_without(by, name))
        made[name] = away, held.without(away)
    order = np.concatenate([away for away, _ in made.values()])
    every = _Estimates(
        *(
            np.concatenate([getattr(one, field.name) for _, one in made.values()])
            for field in fields(_Estimates)
        )
    )
    by_index = np.argsort(order)
    return Group(
        by, tuple(_compared([found[int(i)] for i in order[by_index]], every.take(by_index)))
    )


def forget_errors() -> None:
    """Forget fits and errors, after the table of constants changed."""
    for cached in (_fit, _constants_without, left_out):
        cached.cache_clear()


class _Held:
    """All points with some constants, prepared for leaving any of them out."""

    def __init__(self, found: Sequence[Point], constants: Table) -> None:
        self._work = with_constants(found, constants)
        whole = np.array([not is_derived(point) for point in found])
        loads = loads_of(found)
        true = np.array([published_seconds(point) for point in found])
        target = np.log(true / calculated(self._work, loads))
        kept = [point for point, is_whole in zip(found, whole, strict=True) if is_whole]
        self._fitted = corrections_of(kept, target[whole])
        self._places = (
            _places(found, whole & ~loads.is_first), _places(found, whole & loads.is_first)
        )  # fmt: skip
        made = step(self._work, loads.sequences)
        self._is_first, self._between = loads.is_first, made.seconds
        self._first = first_token_of_loop(
            self._work, made, loads.sequences, loads.asked, loads.waves
        )

    def without(self, away: NDArray[np.intp]) -> _Estimates:
        """Return the estimates of points, given all others."""
        between, first = (
            fitted.without(places[away])
            for fitted, places in zip(self._fitted, self._places, strict=True)
        )
        return _Estimates(
            self._between[away] * np.exp(between[0]),
            self._first[away] * np.exp(first[0]),
            np.where(self._is_first[away], first[1], between[1]),
        )


def _places(found: Sequence[Point], is_member: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the place of each point's row among the members; -1 if it has none there."""
    of_row: dict[int, int] = {}
    for place, index in enumerate(np.flatnonzero(is_member)):
        of_row[id(found[int(index)].work)] = place
    return np.array([of_row.get(id(point.work), -1) for point in found])


def families(by: str = "point") -> list[Group]:
    """Return the errors by engine and accelerator, the largest family first."""
    found: dict[str, list[Compared]] = {}
    for item in left_out(by).compared:
        found.setdefault(family(item.point), []).append(item)
    groups = [Group(name, tuple(items)) for name, items in found.items()]
    return sorted(groups, key=lambda group: (-len(group.compared), group.name))


def splits() -> list[Group]:
    """Return the errors of expert parallelism and pipeline stages.

    For each, with every point left out of its own estimate, and with all of them left out, so that
    the estimate is from points of other splits alone.
    """
    found = points()
    kinds = np.array([split_of(point.row) for point in found])
    fit, every = _fit()
    made: list[Group] = []
    for name, kind in _SPLITS.items():
        away = np.flatnonzero(kinds == kind)
        alone = tuple(left_out("point").compared[int(index)] for index in away)
        kept = np.array([split_of(point.row) != kind for point in fit.points])
        held = _Held(found, fit.constants(fit.solve(kept, every)))
        together = _compared([found[index] for index in away], held.without(away))
        made += [Group(name, alone), Group(f"{name}, all left out", tuple(together))]
    return made


def of_new(found: Sequence[Point]) -> Group:
    """Return the errors on new points, estimated from all points of the data."""
    wanted = gather([traits_of(point) for point in found])
    parts = [(one.mean(wanted), one.unknown(wanted)) for one in (correction(), first_correction())]
    made = _estimates(stack([point.work for point in found]), found, parts[0], parts[1])
    return Group("new", tuple(_compared(found, made)))


def of_noted() -> Group:
    """Return the errors on rows that cannot be as they are stated, with their models left out."""
    noted = points_of([row for row in loops() if row["note"]])
    made: list[Compared] = []
    for name in dict.fromkeys(map(model_of, noted)):
        some = [point for point in noted if model_of(point) == name]
        nothing = (np.zeros(len(some)), np.ones(len(some)))
        one = with_constants(some, _constants_without("model", name))
        made += _compared(some, _estimates(one, some, nothing, nothing))
    return Group("noted", tuple(made))


@dataclass(frozen=True)
class Contest:
    """Accelerators that were measured with the same model and lengths."""

    model: str
    lengths: str
    best: str
    """Entry with the highest published tokens per second and chip."""
    ranked: tuple[str, ...]
    """Entries by estimated throughput, highest first."""
    engine: str = ""
    kept: float = 1.0
    """Published throughput of the first entry, as a share of the best one's."""

    @property
    def is_found(self) -> bool:
        """Whether the best entry is among the first two estimated."""
        return self.best in self.ranked[:2]

    @property
    def is_first(self) -> bool:
        """Whether the best entry is the first estimated."""
        return self.best == self.ranked[0]


def contests(by: str = "point") -> list[Contest]:
    """Return every hardware comparison of published throughput, estimated without that data.

    An entry is an accelerator at a precision and a number of chips. Entries are compared by
    throughput per chip of an engine at one load.
    """
    sets: dict[tuple[str, ...], dict[str, tuple[float, float]]] = {}
    for item in left_out(by).compared:
        row = item.point.row
        if item.point.quantity != THROUGHPUT:
            continue
        key = (model_of(item.point), row["input_tokens"], row["output_tokens"], row["load"],
               row["kind"], engine_of(row["engine"]))  # fmt: skip
        entry = f"{row['chips']} x {row['accelerator']} {row['precision']}"
        chips = float(row["chips"])
        published = item.point.published / chips
        sets.setdefault(key, {})[entry] = (published, item.estimated / chips)
    return [
        _contest(f"{key[0]}B", f"{key[1]}/{key[2]} {key[3]}", key[5], entries)
        for key, entries in sets.items()
        if len({entry.split()[2] for entry in entries}) > 1
    ]


def chip_contests(by: str = "model", only: str = "") -> list[Contest]:
    """Return every comparison of accelerators in closed loops, estimated without that data.

    Model, engine, precision, split, lengths and load are the same, and entries are compared by
    output tokens per second: concurrency times output tokens, over the time of a whole request.
    Arguments are those of `left_out`.
    """
    times: dict[int, dict[str, Compared]] = {}
    for item in left_out(by, only).compared:
        if "silicon_sample" in item.point.row["source"]:
            times.setdefault(id(item.point.work), {})[item.point.quantity] = item
    sets: dict[tuple[str, ...], dict[str, tuple[float, float]]] = {}
    for pair in times.values():
        between, first = pair[BETWEEN], pair[FIRST]
        point = between.point
        row, made = point.row, float(point.work.made[0])
        published, estimated = (
            point.sequences * made / (one + other * (made - 1)) * 1e3
            for one, other in (
                (first.point.published, point.published),
                (first.estimated, between.estimated),
            )
        )
        key = (row["model"], engine_of(row["engine"]), row["precision"], row["parallelism"],
               row["input_tokens"], row["output_tokens"], row["load"])  # fmt: skip
        sets.setdefault(key, {})[row["accelerator"]] = (published, estimated)
    return [
        _contest(key[0], f"{key[4]}/{key[5]} {key[6]}", key[1], entries)
        for key, entries in sets.items()
        if len(entries) > 1
    ]


def _contest(
    model: str, lengths: str, engine: str, entries: dict[str, tuple[float, float]]
) -> Contest:
    """Return a contest of entries, each with its published and estimated throughput."""
    best = max(entries, key=lambda name: entries[name][0])
    ranked = sorted(entries, key=lambda name: -entries[name][1])
    kept = entries[ranked[0]][0] / entries[best][0]
    return Contest(model, lengths, best, tuple(ranked), engine, kept)


_LEAST_POINTS, _SHARE, _LEAST_WIDTH = 15, 0.8, 0.03


def widths() -> dict[str, dict[str, Any]]:
    """Return how wide intervals must be, for data/reached.yaml.

    For estimates without points of the model: the quantile of errors on models left out. Beside
    many points: that on points left out, of what is not due to the missing ones.
    """
    found: dict[str, dict[str, Any]] = {}
    for quantity in QUANTITIES:
        whole = [left_out(by) for by in ("model", "point")]
        models, alone = (group.of(quantity).compared for group in whole)
        found[quantity] = {"any": _width(models, alone)}
        for key in sorted({interval_key(item.point) for item in whole[0].compared}):
            mine, near = (_of_key(group.of(quantity), key) for group in whole)
            if len(mine) < _LEAST_POINTS and quantity == BETWEEN:
                mine, near = (_of_key(group.where(_is_of_step), key) for group in whole)
            if len(mine) >= _LEAST_POINTS:
                found[quantity][key] = _width(mine, near)
    return found


def _of_key(group: Group, key: str) -> tuple[Compared, ...]:
    return group.where(lambda item: interval_key(item.point) == key).compared


def _is_of_step(item: Compared) -> bool:
    """Return whether a point measures steps: few families have enough times between tokens."""
    return item.point.quantity != FIRST


def _width(models: Sequence[Compared], alone: Sequence[Compared]) -> dict[str, float]:
    unknown = float(np.quantile([_distance(item) for item in models], _SHARE))
    rest = [
        (_distance(item) - unknown * item.unknown) / max(1e-3, 1 - item.unknown) for item in alone
    ]
    known = min(unknown, max(_LEAST_WIDTH, float(np.quantile(rest, _SHARE))))
    return {"known": round(known, 3), "unknown": round(unknown, 3)}


def _distance(item: Compared) -> float:
    return abs(float(np.log(item.estimated / item.point.published)))


def coverage(quantity: str) -> float:
    """Return how often intervals hold on a model whose own errors had no part in their width.

    The width for each model is the quantile of the errors on the other models, each of which was
    left out of its own estimate.
    """
    items = left_out("model").of(quantity).compared
    inside = 0
    for name in {model_of(item.point) for item in items}:
        for key in {interval_key(item.point) for item in items}:
            mine = [i for i in items if model_of(i.point) == name and interval_key(i.point) == key]
            others = [i for i in items if model_of(i.point) != name]
            alike = [i for i in others if interval_key(i.point) == key]
            chosen = alike if len(alike) >= _LEAST_POINTS else others
            limit = float(np.quantile([_distance(item) for item in chosen], _SHARE))
            inside += sum(_distance(item) <= limit for item in mine)
    return inside / len(items)
