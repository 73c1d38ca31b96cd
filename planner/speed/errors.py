"""How wrong the estimates are on points that they have not seen."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median

import numpy as np

from planner.speed.correction import Z80, correction, engine_of, gather, residuals, traits_of
from planner.speed.correction import left_out as correction_without
from planner.speed.points import Point, points

_LABEL = {"vllm": "vLLM", "sglang": "SGLang", "tensorrt": "TensorRT-LLM"}


@dataclass(frozen=True)
class Compared:
    """A point, and what was estimated without it."""

    point: Point
    estimated: float
    low: float
    """Lower end of the interval that should hold 80 % of the points."""
    high: float

    @property
    def error(self) -> float:
        """Estimated over published, less one."""
        return self.estimated / self.point.published - 1

    @property
    def is_inside(self) -> bool:
        """Whether the published value lies in the interval."""
        return self.low <= self.point.published <= self.high


@dataclass(frozen=True)
class Group:
    """Errors of points that have something in common."""

    name: str
    compared: tuple[Compared, ...]

    @property
    def errors(self) -> list[float]:
        """Absolute errors, the smallest first."""
        return sorted(abs(item.error) for item in self.compared)

    @property
    def median(self) -> float:
        """Median absolute error."""
        return median(self.errors)

    @property
    def nine_in_ten(self) -> float:
        """Absolute error that nine in ten points stay under."""
        return self.errors[int(0.9 * (len(self.errors) - 1))]

    @property
    def inside(self) -> float:
        """Part of the points in their 80 % interval."""
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
"""What is left out together, and the name of the set a point is in."""


@cache
def left_out(by: str) -> Group:
    """Return every point, estimated from all points of other sets.

    Args:
        by: one of `LEFT_OUT`.
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
    """Return the comparison; a residual is of step time, so throughput has its sign turned."""
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


def of_new(found: Sequence[Point]) -> Group:
    """Return the errors on points of somebody else's, all own points known."""
    mean = correction().mean(gather([traits_of(point) for point in found]))
    spread = correction().deviation(gather([traits_of(point) for point in found]))
    target = residuals(found)
    pairs = zip(found, target, mean, spread, strict=True)
    return Group("new", tuple(_compared(p, float(t), float(m), float(s)) for p, t, m, s in pairs))


@dataclass(frozen=True)
class Contest:
    """Hardware that was measured with the same model and lengths."""

    model: str
    lengths: str
    best: str
    """That with the most tokens a second and chip."""
    ranked: tuple[str, ...]
    """As estimated, the best first."""

    @property
    def is_found(self) -> bool:
        """Whether the best is among the first two."""
        return self.best in self.ranked[:2]

    @property
    def is_first(self) -> bool:
        """Whether the best is the first."""
        return self.best == self.ranked[0]


def contests(by: str = "point") -> list[Contest]:
    """Return every choice among hardware that the data has, made without seeing it.

    An entry is an accelerator at a precision and a number of chips; what counts is throughput per
    chip of an engine at one load.
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
