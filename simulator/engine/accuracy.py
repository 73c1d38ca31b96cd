"""The engine model beside runs of real engines: two traces, and closed loops on one H100.

The traces have the times of each request (`data/runs`); the closed loops are this repository's own
rows of `planner/data/benchmarks.csv`, which have means. Their prompts and answers had lengths at
random within 30 % of 1,024 and 256: here they are drawn again, with the means of the row.
"""

import csv
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean
from typing import Any

import numpy as np
import yaml

from planner.speed.points import rows
from simulator.engine import DATA
from simulator.engine.replay import (
    HTTP_SECONDS,
    Outcome,
    TraceRequest,
    play_closed,
    replay,
    round_robin,
)
from simulator.engine.settings import PREFIX, Deployment, deploy
from twin.engines.vllm_flags import parse

_RUNS = DATA / "runs"
_REQUESTS = {1: 4, 8: 24, 32: 96, 64: 192}
"""Requests of a closed loop by concurrency (docs/benchmarks.md, an engine on one H100)."""
_PROMPTS, _ANSWERS = (717, 1331), (179, 333)
_SEED = 1
_FITTED = "llama3.1-8b"
"""Model of the closed loops to which the figures of GPUs were fitted."""
_MODELS = {
    "llama3.1-8b": "meta-llama/Llama-3.1-8B",
    "Qwen3-30B-A3B": "Qwen/Qwen3-30B-A3B",
    "Qwen3-32B": "Qwen/Qwen3-32B",
}


@dataclass(frozen=True)
class Found:
    """Measured and simulated times of one run, in seconds."""

    name: str
    is_fitted: bool
    """Whether figures of the model were fitted to it."""
    is_mixture: bool
    measured: dict[str, float]
    """`ttft`, `tpot` and `e2e` are means over requests, `e2e_p99` is a percentile."""
    simulated: dict[str, float]

    @property
    def errors(self) -> dict[str, float]:
        """Simulated over measured, minus one, by quantity."""
        return {
            name: self.simulated[name] / value - 1 for name, value in self.measured.items() if value
        }


@cache
def traces() -> tuple[Found, ...]:
    """Replay the traces; the requests that figures were fitted to are an item of their own."""
    about = yaml.safe_load((_RUNS / "runs.yaml").read_text())
    return tuple(found for one in about["runs"] for found in _trace(one, about))


def _trace(one: dict[str, Any], about: dict[str, Any]) -> Iterator[Found]:
    with (_RUNS / one["file"]).open(newline="") as file:
        lines = list(csv.DictReader(file))
    trace = [
        TraceRequest(float(each["arrival"]), int(each["prompt_tokens"]), int(each["output_tokens"]))
        for each in lines
    ]
    environment = {
        PREFIX + "ACCELERATOR": one["accelerator"],
        PREFIX + "CHIPS": str(one["chips"]),
        PREFIX + "LINK": json.dumps(about["link"]),
    }
    words = [one["model"], f"--tensor-parallel-size={one['chips']}", "--max-model-len=32768"]
    made = deploy(parse([*words, *about["flags"]]), environment)
    outcomes = replay(trace, [made], round_robin()).outcomes
    name = f"{one['model'].split('/')[1]}, {one['chips']} x RTX PRO 6000"
    fitted = int(one["fitted"])
    parts = [(0, fitted), (fitted, len(lines))] if fitted else [(0, len(lines))]
    for first, end in parts:
        which = "" if len(parts) == 1 else f", requests {first + 1} to {end}"
        real, same = lines[first:end], outcomes[first:end]
        ttft = [float(each["ttft"]) for each in real]
        e2e = [float(each["e2e"]) for each in real]
        made_tokens = [int(each["output_tokens"]) for each in real]
        tpot = [
            (all_ - first_) / (n - 1)
            for all_, first_, n in zip(e2e, ttft, made_tokens, strict=True)
        ]
        yield Found(name + which, end == fitted, False, _times(ttft, tpot, e2e), _times(*_of(same)))


def _of(outcomes: Sequence[Outcome]) -> tuple[list[float], list[float], list[float]]:
    return (
        [each.ttft or 0.0 for each in outcomes],
        [each.tpot or 0.0 for each in outcomes],
        [each.e2e or 0.0 for each in outcomes],
    )


def _times(ttft: list[float], tpot: list[float], e2e: list[float]) -> dict[str, float]:
    p99 = float(np.percentile(e2e, 99))
    return {"ttft": fmean(ttft), "tpot": fmean(tpot), "e2e": fmean(e2e), "e2e_p99": p99}


@cache
def closed_loops() -> tuple[Found, ...]:
    """Simulate this repository's own closed loops on one H100."""
    return tuple(_closed(row) for row in rows() if _is_ours(row))


def _is_ours(row: Any) -> bool:
    return row["kind"] == "measured" and row["source"].startswith("this repository")


def _closed(row: Any) -> Found:
    at_once = int(row["load"].split()[0])
    made = _deployment(row)
    outcomes = play_closed(_lengths(row, _REQUESTS[at_once]), made, at_once, HTTP_SECONDS)
    ttft, tpot, _ = (fmean(each) for each in _of(outcomes))
    tokens = float(row["output_tokens"]) - 1
    real_ttft, real_tpot = float(row["ttft_ms"]) / 1e3, float(row["tpot_ms"]) / 1e3
    return Found(
        f"{row['model']} {row['precision']}, H100, {at_once} at once",
        row["model"] == _FITTED,
        made.shape.is_mixture,
        {"ttft": real_ttft, "tpot": real_tpot, "e2e": real_ttft + real_tpot * tokens},
        {"ttft": ttft, "tpot": tpot, "e2e": ttft + tpot * tokens},
    )


def _deployment(row: Any) -> Deployment:
    words = [_MODELS[row["model"]], "--max-model-len=20480", "--gpu-memory-utilization=0.9"]
    words.append("--no-enable-prefix-caching")
    if row["precision"] == "fp8":
        words.append("--quantization=fp8")
    return deploy(
        parse(words), {PREFIX + "ACCELERATOR": row["accelerator"], PREFIX + "CHIPS": row["chips"]}
    )


def _lengths(row: Any, count: int) -> list[tuple[int, int]]:
    """Return the prompt and output tokens of a loop's requests, with the means of its row."""
    draw = random.Random(_SEED)  # noqa: S311  # lengths, not secrets
    drawn = [(draw.randint(*_PROMPTS), draw.randint(*_ANSWERS)) for _ in range(count)]
    given = float(row["input_tokens"]) / fmean(each[0] for each in drawn)
    made = float(row["output_tokens"]) / fmean(each[1] for each in drawn)
    return [(round(prompt * given), round(output * made)) for prompt, output in drawn]
