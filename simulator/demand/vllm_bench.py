"""Results of `vllm bench serve --save-result --save-detailed`."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from gke_inference.catalogue.input_error import InputError
from simulator.demand.arrivals import MOST, Arrivals, arrivals_of
from simulator.demand.lines import check_size
from simulator.demand.pattern import MOST_TOKENS
from simulator.demand.rows import Names

MOST_BYTES = 256 << 20
"""Longest result, which is one JSON object and read as a whole."""
_DETAILS = ("input_lens", "output_lens")


@dataclass(frozen=True)
class Listed:
    """Requests in the order of arrival."""

    models: tuple[str, ...]
    arrivals: Arrivals
    teams: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Time of the last request."""
        return float(self.arrivals.seconds[-1])

    def chunks(self, most: int = MOST) -> Iterator[Arrivals]:
        """Yield all requests in chunks of at most `most`."""
        for start in range(0, len(self.arrivals), most):
            yield self.arrivals[start : start + most]


def read_result(path: Path, names: Names) -> Listed:
    """Return the requests of a result.

    Fields (vLLM's vllm/benchmarks/serve.py): `input_lens` and `output_lens`, by request;
    `start_times` of newer versions, in seconds; otherwise `request_rate`, which may be `inf`, and
    `burstiness`, the shape of Gamma gaps; `errors`, empty texts for answered requests; `model_id`.

    Raises:
        InputError: The file is not such a result, or has no times of arrival.
    """
    check_size(path, MOST_BYTES)
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(str(path), f"must be a JSON object: {error}") from None
    if not isinstance(found, dict):
        raise InputError(str(path), "must be a JSON object", type(found).__name__)
    one = cast("dict[str, Any]", found)
    prompts, outputs = (_lengths(path, one, name) for name in _DETAILS)
    if len(prompts) != len(outputs):
        raise InputError(f"{path}: output_lens", f"must have {len(prompts)} entries", len(outputs))
    at = _times(path, one, len(prompts))
    errors = one.get("errors") or [""] * len(prompts)
    kept = (prompts > 0) & (outputs > 0)
    if len(errors) == len(kept):
        kept &= np.array([not error for error in errors], bool)
    if not kept.any():
        raise InputError(str(path), "must have requests with tokens, got none")
    count = len(prompts)
    columns = (
        at - at.min(), np.zeros(count), np.full(count, -1), np.full(count, -1), prompts, outputs,
        np.full(count, -1), np.zeros(count),
    )  # fmt: skip
    arrivals = arrivals_of(*columns)[kept]
    arrivals = arrivals[np.argsort(arrivals.seconds, kind="stable")]
    model = names.of(str(one.get("model_id", "")), f"{path}: model_id")
    return Listed((model,), arrivals)


def _lengths(path: Path, one: dict[str, Any], name: str) -> Any:
    if name not in one:
        rule = "is required (vllm bench serve --save-result --save-detailed)"
        raise InputError(f"{path}: {name}", rule)
    return _numbers(path, name, one[name], MOST_TOKENS)


def _numbers(path: Path, name: str, values: Any, most: float) -> Any:
    if not isinstance(values, list) or not values:
        raise InputError(f"{path}: {name}", "must be a list of numbers")
    if len(cast("list[Any]", values)) > MOST:
        raise InputError(f"{path}: {name}", f"must have at most {MOST:,} entries")
    for number, value in enumerate(cast("list[Any]", values)):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value <= most:
            raise InputError(f"{path}: {name}[{number}]", f"must be 0 to {most:g}", value)
    return np.array(values, float)


def _times(path: Path, one: dict[str, Any], count: int) -> Any:
    if "start_times" in one:
        found = _numbers(path, "start_times", one["start_times"], 1e12)
        if len(found) != count:
            raise InputError(f"{path}: start_times", f"must have {count} entries", len(found))
        return found
    rate, shape = one.get("request_rate"), one.get("burstiness", 1.0)
    if not isinstance(rate, int | float) or not 0 < rate < math.inf:
        rule = "must be a number where a result has no start_times: times of arrival are unknown"
        raise InputError(f"{path}: request_rate", rule, rate)
    if not isinstance(shape, int | float) or not 0 < shape < math.inf:
        raise InputError(f"{path}: burstiness", "must be more than 0", shape)
    gaps = np.random.default_rng(0).standard_gamma(shape, count) / shape
    return np.cumsum(gaps) / rate
