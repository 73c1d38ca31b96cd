"""Corrections of the roofline for single models, learned from published points.

The logarithm of published over calculated time is a Gaussian process over the traits of a point.
Points of another model have no effect, and those of another engine almost none: what makes one
model slow on one engine was found not to transfer. A model without points gets the roofline with
the constants of `constants`, and the widest interval. Times to the first token have a process of
their own.

Intervals are conformal: a process only orders estimates by how much is known about them. How wide
an interval of 80 % must be is the quantile of errors on points that were left out, those of a whole
model for estimates without points (`errors` measures it, data/reached.yaml has it).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from planner.fit.tables import table
from planner.speed.constants import engine_of, generation_of
from planner.speed.fitting import calculated, is_derived, loads_of, published_seconds
from planner.speed.points import FIRST, Point, points_of_model, split_of
from planner.speed.roofline_step import Array, stack

Names = NDArray[np.str_]

SCALES = np.array([2.0, 1.5, 1.5, 1.2, 1.2, 1.2, 1.2])
"""Length scales: batch, prompt, answer, chips, active size (e-folds), sparsity, bits (octaves)."""
_UNLIKE = {"hosts": 1.0, "generation": 0.7, "kind": 0.5, "load": 0.3, "split": 0.3, "chip": 0.15}
"""How unlike each other two points of a model and engine are whose names differ. No published point
is from several GPU hosts, so the interval of a candidate on several hosts is wide."""
_NAMES = ("engine", "model", *_UNLIKE)


@dataclass(frozen=True)
class _Scale:
    """Standard deviations of what a model adds to the logarithm of a time."""

    model: float
    """With any engine."""
    engine: float
    """With one engine."""
    generation: float
    """With one engine on one generation of hardware."""
    near: float
    """Near a point of that engine."""
    noise: float

    @property
    def whole(self) -> float:
        """Without any point."""
        parts = (self.model, self.engine, self.generation, self.near, self.noise)
        return math.sqrt(sum(part**2 for part in parts))


_BETWEEN = _Scale(0.08, 0.15, 0.1, 0.15, 0.05)
_FIRST = _Scale(0.0, 0.3, 0.2, 0.3, 0.1)


@dataclass(frozen=True)
class Traits:
    """Traits of candidates or points for the correction, with an entry or row for each."""

    numbers: Array
    """Columns as in `SCALES`; the first is the logarithm of the batch."""
    names: dict[str, Names]
    """Names by key of `_NAMES`."""

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self.numbers)

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> "Traits":
        """Return a selection of entries."""
        return Traits(self.numbers[index], {key: value[index] for key, value in self.names.items()})


_NOTHING = Traits(np.zeros((0, len(SCALES))), {key: np.zeros(0, np.str_) for key in _NAMES})


def traits(
    *,
    engine: str,
    accelerator: str,
    batch: float,
    given: float,
    made: float,
    chips: int,
    active: float,
    total: float,
    bits: int,
    load: str,
    split: str = "",
    hosts: str = "one",
) -> tuple[list[float], dict[str, str]]:
    """Return one entry of `Traits`.

    Args:
        engine: Engine as named in a published row, such as vLLM, SGLang or TensorRT-LLM.
        accelerator: GKE's label value.
        batch: Running sequences.
        given: Tokens per prompt.
        made: Tokens per answer.
        chips: Chips per replica.
        active: Active parameters per token, in billions.
        total: All parameters, in billions.
        bits: Bits per weight.
        load: `concurrent` if the batch was set, `most` if the server ran at its maximum.
        split: `stages` with pipeline stages, `experts` with expert parallelism, otherwise empty.
        hosts: `several` if the chips of a replica communicate over a network of hosts.
    """
    numbers = [batch, given, made, chips, active, total / active]
    kind = "tpu" if accelerator.startswith("tpu") else "gpu"
    names = {
        "engine": engine_of(engine),
        "generation": generation_of(accelerator),
        "kind": kind,
        "chip": accelerator,
        "load": load,
        "model": f"{total:g}",
        "split": split,
        "hosts": hosts,
    }
    return [*(math.log(max(1e-3, value)) for value in numbers), math.log2(bits)], names


def gather(entries: Sequence[tuple[list[float], dict[str, str]]]) -> Traits:
    """Return entries as `Traits`."""
    return Traits(
        np.array([numbers for numbers, _ in entries]),
        {key: np.array([names[key] for _, names in entries]) for key in _NAMES},
    )


def traits_of(point: Point) -> tuple[list[float], dict[str, str]]:
    """Return the traits of a published point."""
    row = point.row
    return traits(
        engine=row["engine"],
        accelerator=row["accelerator"],
        batch=point.sequences,
        given=float(point.work.given[0]),
        made=float(point.work.made[0]),
        chips=point.chips,
        active=point.shape.active_billion,
        total=point.shape.parameters_billion,
        bits=point.shape.bits,
        load="concurrent" if "concurrent" in row["load"] else "most",
        split=split_of(row),
    )


def residuals(found: Sequence[Point]) -> Array:
    """Return the logarithms of published over calculated times."""
    one = stack([point.work for point in found])
    true = np.array([published_seconds(point) for point in found])
    return np.log(true / calculated(one, loads_of(found)))


@dataclass(frozen=True)
class _Process:
    """The process of one model, fitted."""

    scale: _Scale
    at: Traits
    weights: Array
    factor: Array
    """Inverse of the lower Cholesky factor of the covariance."""

    def mean(self, wanted: Traits, batches: Array | None) -> Array:
        near, common = _kernel(self.scale, wanted, self.at, has_batch=batches is None)
        if batches is None:
            return (near + common) @ self.weights
        distance = (np.log(batches)[:, None] - self.at.numbers[None, :, 0]) / SCALES[0]
        by_batch = np.exp(-0.5 * distance**2)
        return near @ (by_batch * self.weights).T + (common @ self.weights)[:, None]

    def deviation(self, wanted: Traits) -> Array:
        near, common = _kernel(self.scale, wanted, self.at, has_batch=True)
        explained = np.sum(((near + common) @ self.factor.T) ** 2, axis=1)
        least = self.scale.noise**2
        return np.sqrt(np.maximum(least, self.scale.whole**2 - explained))


class Correction:
    """What is known about times of one kind, model by model; a model is fitted when asked for."""

    def __init__(self, scale: _Scale, at: Traits, target: Array) -> None:
        """Take points and their residuals."""
        self._scale, self._at, self._target = scale, at, target
        self._fitted: dict[str, _Process | None] = {}
        self._inverses: dict[str, tuple[Array, Array]] = {}

    def mean(self, wanted: Traits, batches: Array | None = None) -> Array:
        """Return the logarithm to add to calculated times, one for each entry.

        With `batches`, return one for each entry and batch, and ignore the entries' own batch. The
        batch is a separate factor of the kernel, so this takes one matrix product.
        """
        shape = (len(wanted),) if batches is None else (len(wanted), len(batches))
        found = np.zeros(shape)
        for index, process in self._of_models(wanted):
            if process is not None:
                found[index] = process.mean(wanted.take(index), batches)
        return found

    def deviation(self, wanted: Traits) -> Array:
        """Return the standard deviation of that logarithm by the process, before calibration."""
        found = np.full(len(wanted), self._scale.whole)
        for index, process in self._of_models(wanted):
            if process is not None:
                found[index] = process.deviation(wanted.take(index))
        return found

    def unknown(self, wanted: Traits) -> Array:
        """Return what is not known about each entry: 0 beside many points, 1 without any."""
        least, whole = self._scale.noise, self._scale.whole
        return np.clip((self.deviation(wanted) - least) / (whole - least), 0.0, 1.0)

    def without(self, away: NDArray[np.intp]) -> tuple[Array, Array]:
        """Return mean and what is unknown of points, given all others of their model.

        Uses blocks of the inverse, which is equivalent to solving without them and much faster.

        Args:
            away: Places among the points of this correction; a point that is not among them has
                -1, no mean, and everything unknown.
        """
        mean, unknown = np.zeros(len(away)), np.ones(len(away))
        least, whole = self._scale.noise, self._scale.whole
        names = self._at.names["model"]
        inside = np.flatnonzero(away >= 0)
        for model in np.unique(names[away[inside]]):
            of_model = np.flatnonzero(names == model)
            inverse, product = self._inverse(str(model), of_model)
            mine = inside[names[away[inside]] == model]
            at: NDArray[np.intp] = np.searchsorted(of_model, away[mine])
            places, which = np.unique(at, return_inverse=True)
            block = np.linalg.inv(inverse[np.ix_(places, places)])
            found = self._target[of_model[places]] - block @ product[places]
            deviation = np.sqrt(np.maximum(least**2, np.diag(block)))
            mean[mine] = found[which]
            unknown[mine] = np.clip((deviation[which] - least) / (whole - least), 0.0, 1.0)
        return mean, unknown

    def _inverse(self, model: str, index: NDArray[np.intp]) -> tuple[Array, Array]:
        """Return the inverse of the covariance of a model's points, and its product with them."""
        if model not in self._inverses:
            found = np.asarray(
                np.linalg.inv(_covariance(self._scale, self._at.take(index))), dtype=np.float64
            )
            self._inverses[model] = found, found @ self._target[index]
        return self._inverses[model]

    def _of_models(self, wanted: Traits) -> list[tuple[NDArray[np.intp], _Process | None]]:
        names = wanted.names["model"]
        return [
            (np.flatnonzero(names == model), self._process(str(model)))
            for model in np.unique(names)
        ]

    def _process(self, model: str) -> _Process | None:
        if model not in self._fitted:
            index = np.flatnonzero(self._at.names["model"] == model)
            known = len(index) > 0
            at, target = self._at.take(index), self._target[index]
            self._fitted[model] = _fitted(self._scale, at, target) if known else None
        return self._fitted[model]


def _fitted(scale: _Scale, at: Traits, target: Array) -> _Process:
    inverse = np.linalg.inv(np.linalg.cholesky(_covariance(scale, at)))
    factor = np.asarray(inverse, dtype=np.float64)
    return _Process(scale, at, factor.T @ (factor @ target), factor)


def _covariance(scale: _Scale, at: Traits) -> Array:
    near, common = _kernel(scale, at, at, has_batch=True)
    return near + common + scale.noise**2 * np.eye(len(at))


def _kernel(scale: _Scale, one: Traits, other: Traits, *, has_batch: bool) -> tuple[Array, Array]:
    """Return the covariance of the local part and of the common part, for one model."""
    first = 0 if has_batch else 1
    left = one.numbers[:, first:] / SCALES[first:]
    right = other.numbers[:, first:] / SCALES[first:]
    square = (left**2).sum(1)[:, None] + (right**2).sum(1)[None, :] - 2 * left @ right.T
    unlike = {key: _unlike(one.names[key], other.names[key]) for key in ("engine", *_UNLIKE)}
    engine = 1 - unlike["engine"]
    penalty = np.zeros_like(square)
    for key, weight in _UNLIKE.items():
        penalty += weight * unlike[key]
    generation = engine * (1 - unlike["generation"])
    common = scale.model**2 + scale.engine**2 * engine + scale.generation**2 * generation
    return scale.near**2 * engine * np.exp(-0.5 * np.maximum(square, 0) - penalty), common


def _unlike(one: Names, other: Names) -> Array:
    """Return 1 where names differ; compares hashes, which is faster than comparing text."""
    mine, theirs = (
        np.array([hash(name) for name in names.tolist()], dtype=np.int64) for names in (one, other)
    )
    return (mine[:, None] != theirs[None, :]).astype(np.float64)


def corrections_of(found: Sequence[Point], target: Array) -> tuple[Correction, Correction]:
    """Return the corrections of times between tokens, and of times to the first token."""
    every = gather([traits_of(point) for point in found])
    is_first = loads_of(found).is_first
    at, first = np.flatnonzero(~is_first), np.flatnonzero(is_first)
    return (
        Correction(_BETWEEN, every.take(at), target[at]),
        Correction(_FIRST, every.take(first), target[first]),
    )


class _Published(Correction):
    """The correction by all published points; those of a model are read when it is asked for."""

    def __init__(self, scale: _Scale, *, is_first: bool) -> None:
        super().__init__(scale, _NOTHING, np.zeros(0))
        self._is_first = is_first

    def _process(self, model: str) -> _Process | None:
        if model not in self._fitted:
            found = [
                point
                for point in points_of_model(model)
                if (point.quantity == FIRST) == self._is_first and not is_derived(point)
            ]
            self._fitted[model] = (
                _fitted(
                    self._scale, gather([traits_of(point) for point in found]), residuals(found)
                )
                if found
                else None
            )
        return self._fitted[model]


@cache
def _corrections() -> tuple[Correction, Correction]:
    return _Published(_BETWEEN, is_first=False), _Published(_FIRST, is_first=True)


def correction() -> Correction:
    """Return the correction of times between tokens, by all published points."""
    return _corrections()[0]


def first_correction() -> Correction:
    """Return the correction of times to the first token, by all published points."""
    return _corrections()[1]


def forget() -> None:
    """Forget both, so that the next use fits them to rows that were added."""
    _corrections.cache_clear()


def reach_of(wanted: Traits, unknown: Array, quantity: str) -> Array:
    """Return the logarithm of the factor up and down that holds 80 % of such estimates.

    Args:
        wanted: Traits of the estimates.
        unknown: What is not known about each, as `Correction.unknown` returns it.
        quantity: One of `points.QUANTITIES`.
    """
    widths = table("reached")["intervals"][quantity]
    keys = np.char.add(np.char.add(wanted.names["engine"], " "), wanted.names["kind"])
    found = np.zeros(len(wanted))
    for key in np.unique(keys):
        one, at = widths.get(str(key), widths["any"]), keys == key
        found[at] = one["known"] + (one["unknown"] - one["known"]) * unknown[at]
    return found


def interval_key(point: Point) -> str:
    """Return the name of a point's widths in data/reached.yaml."""
    kind = "tpu" if point.row["accelerator"].startswith("tpu") else "gpu"
    return f"{engine_of(point.row['engine'])} {kind}"
