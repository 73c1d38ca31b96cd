"""A correction of the roofline for real engines, learned from published points.

The logarithm of published over computed step time is a Gaussian process over the traits of a point:
engine, hardware generation, type of load, and (logarithms of) batch, lengths, chips, size, sparsity
and bits. Near published points the estimate follows them; far away it falls back to the roofline
with a wider interval. The scales below were set manually, without a search; `errors` measures their
quality on held-out points.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from planner.speed.points import Point, points, split_of
from planner.speed.roofline_step import Array, stack, step

Names = NDArray[np.str_]

SCALES = np.array([2.0, 1.5, 1.5, 1.2, 1.2, 1.2, 1.2])
"""Length scales: batch, prompt, answer, chips, active size (e-folds), sparsity, bits (octaves)."""
_UNLIKE = {
    "engine": 1.0,
    "hosts": 1.0,
    "generation": 0.7,
    "kind": 0.5,
    "load": 0.3,
    "split": 0.3,
    "chip": 0.15,
    "model": 0.15,
}
"""How unlike each other two points are whose names differ. No published point is from several GPU
hosts, so the interval of a candidate on several hosts is wide."""
_NEAR, _COMMON, _NOISE = 0.2, 0.1, 0.01
"""Variances: local part, part common to an engine and a generation, noise of the points."""
Z80 = 1.2816
"""Standard deviations on either side of the mean that contain 80 %."""
_GENERATION = {
    "nvidia-l4": "ada",
    "nvidia-tesla-a100": "ampere",
    "nvidia-a100-80gb": "ampere",
    "nvidia-h100-80gb": "hopper",
    "nvidia-h100-mega-80gb": "hopper",
    "nvidia-h200-141gb": "hopper",
    "nvidia-b200": "blackwell",
    "nvidia-gb200": "blackwell",
    "nvidia-rtx-pro-6000": "rtx-pro",
}


@dataclass(frozen=True)
class Traits:
    """Traits of candidates or points for the correction, with an entry or row for each."""

    numbers: Array
    """Columns as in `SCALES`; the first is the logarithm of the batch."""
    names: dict[str, Names]
    """Names by key of `_UNLIKE`."""

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self.numbers)

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> "Traits":
        """Return a selection of entries."""
        return Traits(self.numbers[index], {key: value[index] for key, value in self.names.items()})


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
        "generation": _GENERATION.get(accelerator, accelerator),
        "kind": kind,
        "chip": accelerator,
        "load": load,
        "model": f"{total:g}",
        "split": split,
        "hosts": hosts,
    }
    return [*(math.log(max(1e-3, value)) for value in numbers), math.log2(bits)], names


def engine_of(text: str) -> str:
    """Return the engine that the text of a published row, or a user, names.

    No published row is for TGI. It has its own name, so its interval is wider.
    """
    known = {"vllm": "vllm", "sglang": "sglang", "tgi": "tgi"}
    return next((name for word, name in known.items() if text.lower().startswith(word)), "tensorrt")


def gather(entries: Sequence[tuple[list[float], dict[str, str]]]) -> Traits:
    """Return entries as `Traits`."""
    return Traits(
        np.array([numbers for numbers, _ in entries]),
        {key: np.array([names[key] for _, names in entries]) for key in _UNLIKE},
    )


def traits_of(point: Point) -> tuple[list[float], dict[str, str]]:
    """Return the traits of a published point."""
    row = point.row
    return traits(
        engine=row["engine"],
        accelerator=row["accelerator"],
        batch=point.sequences,
        given=float(row["input_tokens"]),
        made=float(row["output_tokens"]),
        chips=point.chips,
        active=point.shape.active_billion,
        total=point.shape.parameters_billion,
        bits=point.shape.bits,
        load="concurrent" if "concurrent" in row["load"] else "most",
        split=split_of(row),
    )


def residuals(found: Sequence[Point]) -> Array:
    """Return the logarithm of published over computed step time."""
    count = np.array([point.sequences for point in found])
    computed = step(stack([point.work for point in found]), count).seconds
    true = [
        point.sequences * point.replicas / point.published
        if point.quantity == "output tokens/s"
        else point.published / 1e3
        for point in found
    ]
    return np.log(np.array(true) / computed)


@dataclass(frozen=True)
class Correction:
    """A fitted correction."""

    at: Traits
    weights: Array
    factor: Array
    """Inverse of the lower Cholesky factor of the covariance."""

    def mean(self, wanted: Traits, batches: Array | None = None) -> Array:
        """Return the logarithm to add to computed step times, one for each entry.

        With `batches`, return one for each entry and batch, and ignore the entries' own batch. The
        batch is a separate factor of the kernel, so this takes one matrix product.
        """
        near, common = _kernel(wanted, self.at, has_batch=batches is None)
        if batches is None:
            return (near + common) @ self.weights
        distance = (np.log(batches)[:, None] - self.at.numbers[None, :, 0]) / SCALES[0]
        by_batch = np.exp(-0.5 * distance**2)
        return near @ (by_batch * self.weights).T + (common @ self.weights)[:, None]

    def deviation(self, wanted: Traits) -> Array:
        """Return the standard deviation of that logarithm."""
        near, common = _kernel(wanted, self.at, has_batch=True)
        explained = np.sum(((near + common) @ self.factor.T) ** 2, axis=1)
        return np.sqrt(np.maximum(_NOISE, _NEAR + _COMMON + _NOISE - explained))


def _kernel(one: Traits, other: Traits, *, has_batch: bool) -> tuple[Array, Array]:
    """Return the covariance of the local part and of the common part."""
    first = 0 if has_batch else 1
    left = one.numbers[:, first:] / SCALES[first:]
    right = other.numbers[:, first:] / SCALES[first:]
    square = (left**2).sum(1)[:, None] + (right**2).sum(1)[None, :] - 2 * left @ right.T
    apart = {key: _unlike(one.names[key], other.names[key]) for key in _UNLIKE}
    penalty = np.zeros_like(square)
    for key, weight in _UNLIKE.items():
        penalty += weight * apart[key]
    shared = 0.7 * apart["engine"] + 0.7 * apart["generation"] + 0.5 * apart["kind"]
    return _NEAR * np.exp(-0.5 * np.maximum(square, 0) - penalty), _COMMON * np.exp(-shared)


def covariance(one: Traits, other: Traits) -> Array:
    """Return the covariance of two sets, without the noise of points."""
    near, common = _kernel(one, other, has_batch=True)
    return near + common


@dataclass(frozen=True)
class LeftOut:
    """All points, prepared for leaving any of them out."""

    inverse: Array
    """Inverse of the covariance, including the noise of points."""
    target: Array

    def estimate(self, away: NDArray[np.intp]) -> tuple[Array, Array]:
        """Return mean and standard deviation of some residuals, given all the others.

        It uses blocks of the inverse, which is equivalent to solving without them and much faster.
        """
        block = np.linalg.inv(self.inverse[np.ix_(away, away)])
        mean = self.target[away] - block @ (self.inverse @ self.target)[away]
        return mean, np.sqrt(np.maximum(_NOISE, np.diag(block)))


def left_out(at: Traits, target: Array) -> LeftOut:
    """Return points and their residuals, prepared for leaving any of them out."""
    inverse = np.linalg.inv(covariance(at, at) + _NOISE * np.eye(len(at)))
    return LeftOut(np.asarray(inverse, dtype=np.float64), target)


def _unlike(one: Names, other: Names) -> Array:
    """Return 1 where names differ; compares numbers, which is faster than comparing text."""
    every, numbers = np.unique(np.concatenate([one, other]), return_inverse=True)
    del every
    mine, theirs = numbers[: len(one)], numbers[len(one) :]
    return (mine[:, None] != theirs[None, :]).astype(np.float64)


def fit(at: Traits, target: Array) -> Correction:
    """Return the correction fitted to points and their residuals."""
    near, common = _kernel(at, at, has_batch=True)
    covariance = near + common + _NOISE * np.eye(len(at))
    inverse = np.linalg.inv(np.linalg.cholesky(covariance))
    factor: Array = np.asarray(inverse, dtype=np.float64)
    return Correction(at, factor.T @ (factor @ target), factor)


@cache
def correction() -> Correction:
    """Return the correction of all published points."""
    found = points()
    return fit(gather([traits_of(point) for point in found]), residuals(found))
