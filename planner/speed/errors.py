"""Errors of the estimates on held-out points."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median

import numpy as np

from planner.speed.correction import Z80, correction, engine_of, gather, residuals, traits_of
from planner.speed.correction import left_out as correction_without
from planner.speed.points import Point, points, split_of

_SPLITS = {"expert parallelism": "experts", "pipeline stages": "stages"}
_LABEL = {"vllm": "vLLM", "sglang": "SGLang", "tensorrt": "TensorRT-LLM"}


@dataclass(frozen=True)
class Compared:
    """A point, and the estimate made without it."""

    point: Point
    estimated: float
    low: float
    """Lower end of the interval that should contain 80 % of the points."""
    high: float

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
    def inside(self) -> float:
        """Fraction of the points inside their 80 % interval."""
        return sum(item.is_inside for item in self.compared) / len(self.compared)


def family(point: Point) -> str:
    """Return engine and accelerator, such as `vLLM on tpu7x`."""
    return f"{_LABEL[engine_of(point.row['engine'])]} on {point.row['accelerator']}"


LEFT_OUT: dict[str, Callable[[Point], str]] = {
    "point": lambda point: "|".join(point.row.values()),
    "model on one accelerator": lambda point: (
        f"{point.shape.parameters_billion}|{point.row['accelerator']}"
    ),
    "accelerator": lambda point: point.row["accelerator"],
    "model": lambda point: f"{point.shape.parameters_billion}",
    "engine and accelerator": family,
    "source": lambda point: point.row["source"],
}
"""Ways to hold out points together, each with a function that names the set of a point."""


@cache
def left_out(by: str) -> Group:
    """Return every point, estimated from the points of all other sets.

    Args:
        by: Key of `LEFT_OUT`.
    """
    found = points()
    every = gather([traits_of(point) for point in found])
    target = residuals(found)
    names = np.array([LEFT_OUT[by](point) for point in found])
    made: dict[int, Compared] = {}
    others = correction_without(every, target)
    for name in dict.fromkeys(names.tolist()):
        away = np.flatnonzero(names == name)
        mean, spread = others.estimate(away)
        for place, index in enumerate(away):
            made[int(index)] = _compared(
                found[index], float(target[index]), float(mean[place]), float(spread[place])
            )
    return Group(by, tuple(made[index] for index in range(len(found))))


def _compared(point: Point, target: float, mean: float, spread: float) -> Compared:
    """Return the comparison; residuals are of step time, so the sign is inverted for throughput."""
    sign = -1.0 if point.quantity == "output tokens/s" else 1.0
    middle = point.published * float(np.exp(sign * (mean - target)))
    reach = float(np.exp(Z80 * spread))
    return Compared(point, middle, middle / reach, middle * reach)


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
    others = correction_without(gather([traits_of(point) for point in found]), residuals(found))
    target = residuals(found)
    made: list[Group] = []
    for name, kind in _SPLITS.items():
        away = np.flatnonzero(kinds == kind)
        alone = tuple(left_out("point").compared[int(index)] for index in away)
        mean, spread = others.estimate(away)
        every = tuple(
            _compared(found[index], float(target[index]), float(m), float(s))
            for index, m, s in zip(away, mean, spread, strict=True)
        )
        made += [Group(name, alone), Group(f"{name}, all left out", every)]
    return made


def of_new(found: Sequence[Point]) -> Group:
    """Return the errors on new points, estimated from all points of the data."""
    mean = correction().mean(gather([traits_of(point) for point in found]))
    spread = correction().deviation(gather([traits_of(point) for point in found]))
    target = residuals(found)
    pairs = zip(found, target, mean, spread, strict=True)
    return Group("new", tuple(_compared(p, float(t), float(m), float(s)) for p, t, m, s in pairs))


@dataclass(frozen=True)
class Contest:
    """Accelerators that were measured with the same model and lengths."""

    model: str
    lengths: str
    best: str
    """Entry with the highest published tokens per second and chip."""
    ranked: tuple[str, ...]
    """Entries by estimated throughput, highest first."""

    @property
    def is_found(self) -> bool:
        """Whether the best entry is among the first two estimated."""
        return self.best in self.ranked[:2]

    @property
    def is_first(self) -> bool:
        """Whether the best entry is the first estimated."""
        return self.best == self.ranked[0]


def contests(by: str = "point") -> list[Contest]:
    """Return every hardware comparison in the data, estimated without that data.

    An entry is an accelerator at a precision and a number of chips. Entries are compared by
    throughput per chip of an engine at one load.
    """
    sets: dict[tuple[str, ...], dict[str, Compared]] = {}
    for item in left_out(by).compared:
        row = item.point.row
        if item.point.quantity != "output tokens/s":
            continue
        size = f"{item.point.shape.parameters_billion:g}B"
        key = (size, row["input_tokens"], row["output_tokens"], row["load"], row["kind"],
               engine_of(row["engine"]))  # fmt: skip
        entry = f"{row['chips']} x {row['accelerator']} {row['precision']}"
        sets.setdefault(key, {})[entry] = item
    found: list[Contest] = []
    for key, entries in sets.items():
        if len({item.point.row["accelerator"] for item in entries.values()}) < 2:
            continue

        def chips(item: Compared) -> float:
            return float(item.point.row["chips"])

        best = max(entries, key=lambda name: entries[name].point.published / chips(entries[name]))
        ranked = sorted(entries, key=lambda name: -entries[name].estimated / chips(entries[name]))
        found.append(Contest(key[0], f"{key[1]}/{key[2]} {key[3]}", best, tuple(ranked)))
    return found
