"""Measurements of users: rows as in data/benchmarks.csv, or results of `vllm bench serve`."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from planner.speed import points as published
from planner.speed.correction import forget

METADATA = ("accelerator", "chips", "precision")
"""What `vllm bench serve` does not know: keys of its option `--metadata`. `model` is optional."""

_NUMBERS = (
    "completed",
    "mean_tpot_ms",
    "mean_ttft_ms",
    "output_throughput",
    "total_input_tokens",
    "total_output_tokens",
)


def rows_of(file: Path) -> list[Mapping[str, str]]:
    """Return the rows of a CSV table, or of JSON results, one object or one for each line.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is neither, or a result lacks something or is no closed loop.
        KeyError: A CSV row lacks a column.
    """
    text = file.read_text(encoding="utf-8")
    if file.suffix not in {".json", ".jsonl"}:
        return list(csv.DictReader(text.splitlines()))
    try:
        found: list[Any] = [json.loads(text)]
    except ValueError:
        found = [json.loads(line) for line in text.splitlines() if line.strip()]
    return [_row(one) for one in found]


def include(found: Sequence[Mapping[str, str]]) -> None:
    """Fit the correction to these rows too, from now on and for this process."""
    published.ADDED.extend(found)
    published.points.cache_clear()
    forget()


def is_usable(row: Mapping[str, str]) -> bool:
    """Return whether the correction is fitted to a row; others are skipped.

    Those are rows of a model or an accelerator that the planner does not know, and of embeddings.
    """
    return bool(published.points_of([row]))


def _row(result: Any) -> Mapping[str, str]:
    """Return one result as a row.

    Keys are those of `vllm bench serve --save-result` (vLLM 0.26.0, benchmarks/serve.py).
    """
    if not isinstance(result, dict):
        raise ValueError(f"result: must be a JSON object, got {type(result).__name__}")
    one = cast("dict[str, Any]", result)
    for key in METADATA:
        if not one.get(key):
            raise ValueError(f"{key}: is required (vllm bench serve --metadata {key}=...)")
    if one["precision"] not in published.BITS:
        known = ", ".join(published.BITS)
        raise ValueError(f"precision: must be one of {known}, got {one['precision']!r}")
    for key in _NUMBERS:
        if not isinstance(one[key], int | float):
            raise ValueError(f"{key}: must be a number, got {one[key]!r}")
    if one.get("request_rate") != "inf" or not one.get("max_concurrency"):
        got = f"{one.get('request_rate')} and {one.get('max_concurrency')}"
        raise ValueError(f"request_rate: must be inf, with a max_concurrency, got {got}")
    if one.get("failed") or not one.get("completed"):
        raise ValueError(f"failed: must be 0 of at least one request, got {one.get('failed')}")
    count = float(one["completed"])
    return {
        "model": str(one.get("model") or one.get("model_id")),
        "precision": str(one["precision"]),
        "engine": str(one.get("engine") or "vLLM"),
        "accelerator": str(one["accelerator"]),
        "chips": str(one["chips"]),
        "parallelism": str(one.get("parallelism") or f"TP{one['chips']}"),
        "input_tokens": f"{one['total_input_tokens'] / count:.0f}",
        "output_tokens": f"{one['total_output_tokens'] / count:.0f}",
        "lengths": "mean of the requests",
        "load": f"{one['max_concurrency']} concurrent",
        "requests": f"{count:.0f}",
        "link_gb_per_s": str(one.get("link_gb_per_s") or ""),
        "output_tokens_per_second": f"{one['output_throughput']:.1f}",
        "ttft_ms": f"{one['mean_ttft_ms']:.1f}",
        "ttft_stat": "mean",
        "tpot_ms": f"{one['mean_tpot_ms']:.2f}",
        "tpot_stat": "mean",
        "date": str(one.get("date", "")),
        "source": "vllm bench serve",
        "kind": "measured",
    }
