"""Calibration of the cost model against published points, with its errors and failures.

`planner/data/benchmarks.csv` has every published point that states the parameters of a steady
state: model, hardware, lengths, and concurrency or "as much as goes". A point is reduced to one
mean step: B sequences decode, with a context of the prompt and half the response, while the prompts
of new sequences that replace finished ones are computed in the same steps; `B / step` is the
throughput. The step is that of `CostModel`.

For each family of engine and hardware, four figures are fitted on a grid: the fractions of peak
compute and of peak bandwidth that it reaches, the overhead of each step in seconds, and the
slowdown of compute for a mixture of experts. The fit minimizes the mean absolute logarithm of
simulated over published. Each point is then simulated with figures that were fitted without it
(leave one out).
"""

import csv
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from planner.fit.chips import Efficiency, accelerator, efficiency_of, network_of_host
from planner.speed.constants import generation_of
from planner.speed.links import HIGH_THROUGHPUT
from planner.speed.points import group, kv_bits_of, rows, sequences_of, shape_of_row, stages_of
from planner.speed.roofline import CostModel, ExpertGroup, StepLoad, StepParts
from simulator.engine import DATA
from simulator.engine.replay import TraceRequest, replay, round_robin
from simulator.engine.settings import PREFIX, EngineError, deploy
from twin.engines.vllm_flags import parse

_PREFILL = np.round(np.arange(0.10, 1.0, 0.05), 2)
_DECODE = np.round(np.arange(0.15, 1.0, 0.05), 2)
_OVERHEAD = np.array((0.0005, 0.0012, 0.0018, 0.0025, 0.004, 0.006, 0.009, 0.013, 0.02))
_MIXTURE = np.array((1.0, 1.5, 2.0, 3.0, 4.0, 6.0))
_FITTED = np.array(np.meshgrid(_PREFILL, _DECODE, _OVERHEAD, _MIXTURE, indexing="ij")).reshape(
    4, -1
)
_GRID = np.concatenate([_FITTED, _FITTED[:2]])
"""A column per candidate: prefill, decode, overhead, mixture, and again the first two for
attention, which a fit does not tell apart."""
_STEP_TOKENS = 8192
_VLLM_FAMILIES = {
    "ada": "L4",
    "rtx-pro": "RTX PRO 6000",
    "tpu-v5-lite-podslice": "TPU v5e",
    "tpu-v6e-slice": "TPU v6e",
    "tpu7x": "TPU7x",
}
"""By generation."""
_FAMILIES = {"blackwell": "Blackwell", "rtx-pro": "RTX PRO 6000"}


@dataclass(frozen=True)
class Point:
    """One published point as a steady state."""

    row: Mapping[str, str]
    family: str
    quantity: str
    """`output tokens/s` or `ms between tokens`."""
    published: float
    steps: tuple["MeanStep", ...]
    sequences: float
    replicas: float
    mixture: bool

    def simulated(self, grid: np.ndarray) -> np.ndarray:
        """Return the model's value of the quantity for each column of a grid of figures."""
        prefill, decode, overhead, mixture, attention, kv = grid
        mean = np.zeros(grid.shape[1])
        for step in self.steps:
            peak = step.peak
            compute = peak.product_compute / prefill * (mixture if self.mixture else 1.0)
            own = np.maximum(peak.attention_compute / attention, peak.attention_reads / kv)
            longer = np.maximum(compute, peak.product_reads / decode) + own
            if np.isnan(attention).all():  # attention has no time of its own
                compute = compute + peak.attention_compute / prefill
                reads = (peak.product_reads + peak.attention_reads) / decode
                longer = np.maximum(compute, reads)
            mean += step.part * (longer + step.links + overhead)
        if self.quantity == "ms between tokens":
            return mean * 1e3
        return self.sequences / mean * self.replicas


@dataclass(frozen=True)
class MeanStep:
    """A kind of step: its share of all steps, and its time at peak in seconds."""

    part: float
    peak: StepParts
    links: float


@dataclass(frozen=True)
class Compared:
    """A point, and the model's value with figures fitted without it."""

    point: Point
    simulated: float

    @property
    def error(self) -> float:
        """Simulated over published, minus one."""
        return self.simulated / self.point.published - 1


@dataclass(frozen=True)
class Family:
    """One family of engine and hardware."""

    name: str
    efficiency: Efficiency
    """Fitted to all its points."""
    compared: tuple[Compared, ...]

    @property
    def errors(self) -> list[float]:
        """Absolute errors with each point left out of its own fit, smallest first."""
        return sorted(abs(item.error) for item in self.compared)

    @property
    def engine_errors(self) -> list[float]:
        """Absolute errors with the figures of the simulated engine, smallest first."""
        return sorted(
            abs(
                float(item.point.simulated(_engine_figures(item.point))[0]) / item.point.published
                - 1
            )
            for item in self.compared
        )


def _engine_figures(point: Point) -> np.ndarray:
    chip, shape = accelerator(point.row["accelerator"]), shape_of_row(point.row)
    used = efficiency_of(chip)
    model = CostModel(shape, chip, 1)
    figures = (
        model.prefill,
        used.decode,
        model.fixed_seconds,
        used.mixture,
        used.attention or math.nan,
        used.kv or used.decode,
    )
    return np.array([[each] for each in figures])


def family_of(row: Mapping[str, str]) -> str:
    """Return the family of a row: the engine, and the generation of its hardware."""
    generation = generation_of(accelerator(row["accelerator"]).name)
    engine = row["engine"]
    if engine.startswith("vLLM"):
        return f"vLLM on {_VLLM_FAMILIES.get(generation, 'data-centre GPU')}"
    engine = "SGLang" if engine.startswith("SGLang") else "TensorRT-LLM"
    size = "DeepSeek-R1" if "deepseek" in row["model"].lower() else "other models"
    return f"{engine} on {_FAMILIES.get(generation, 'Hopper')}, {size}"


def _steps(model: CostModel, count: float, given: float, made: float) -> tuple[MeanStep, MeanStep]:
    """Return the steps that only decode, and those that also compute prompts.

    With pipeline stages, every micro-batch is one of these steps.
    """
    batches = min(float(model.stages), max(1.0, count))
    needed = count * given / made
    chunk = min(max(given * batches, needed), _STEP_TOKENS * batches - count)
    with_prompts = needed / chunk
    context = count * (given + made / 2)
    pairs = chunk * given / 2
    prompts = max(batches, chunk / given)
    decode = StepLoad(0, max(1, round(count)), round(context), round(context))
    both = StepLoad(
        round(chunk),
        max(1, round(count)),
        round(context + given),
        round(context + pairs),
        prompts=prompts,
        prompt_context=round(given),
    )
    return _mean_step(model, decode, 1 - with_prompts), _mean_step(model, both, with_prompts)


def _mean_step(model: CostModel, load: StepLoad, part: float) -> MeanStep:
    return MeanStep(part, model.parts(load), model.link_seconds(load))


def _points(row: Mapping[str, str]) -> list[Point]:
    shape = shape_of_row(row)
    chips, replicas = group(shape, row)
    kv_bits = kv_bits_of(row, shape)
    experts = None
    if "DEP" in row["parallelism"] and shape.expert_billion:
        experts = ExpertGroup(chips, copies=chips, backend=HIGH_THROUGHPUT)
    chip, stages = accelerator(row["accelerator"]), stages_of(row)
    model = CostModel(
        shape, chip, chips, kv_bits, stages=stages, network=network_of_host(chip), experts=experts
    )
    given, made = float(row["input_tokens"]), float(row["output_tokens"])
    count = sequences_of(row, shape, chips, kv_bits)
    count = min(
        count, stages * _STEP_TOKENS / (1 + given / made)
    )  # more cannot be kept busy with prompts
    common: dict[str, Any] = {
        "row": row,
        "family": family_of(row),
        "steps": _steps(model, count, given, made),
        "sequences": count,
        "replicas": replicas,
        "mixture": shape.is_mixture,
    }
    found: list[Point] = []
    if row["output_tokens_per_second"] and not row["load"].startswith(("burst", "0.")):
        rate = float(row["output_tokens_per_second"])
        found.append(Point(quantity="output tokens/s", published=rate, **common))
    if row["tpot_ms"] and row["tpot_stat"] != "NTPOT" and "concurrent" in row["load"]:
        between = float(row["tpot_ms"])
        found.append(Point(quantity="ms between tokens", published=between, **common))
    return found


def fit(points: Sequence[Point]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the best figures for all points, and for all points except each one.

    Each is a column of a grid, the first of equally good ones.
    """
    lines = [np.abs(np.log(point.simulated(_GRID) / point.published)) for point in points]
    total = np.sum(lines, axis=0)
    without = [_column(int(np.argmin(total - line))) for line in lines]
    return _column(int(np.argmin(total))), without


def _column(index: int) -> np.ndarray:
    return _GRID[:, index : index + 1]


@cache
def families() -> tuple[Family, ...]:
    """Return all fitted families of the data, largest first."""
    grouped: dict[str, list[Point]] = {}
    for row in rows():
        for point in _points(row):
            grouped.setdefault(point.family, []).append(point)
    found: list[Family] = []
    for name, points in grouped.items():
        best, without = fit(points)
        compared = tuple(
            Compared(point, float(point.simulated(figures)[0]))
            for point, figures in zip(points, without, strict=True)
        )
        prefill, decode, overhead, mixture = (float(value[0]) for value in best[:4])
        found.append(Family(name, Efficiency(prefill, decode, overhead, mixture), compared))
    return tuple(sorted(found, key=lambda family: (-len(family.compared), family.name)))


@dataclass(frozen=True)
class Fit:
    """A combination from public use, and whether it starts in the memory model."""

    row: Mapping[str, str]
    problem: str
    """Error of the memory model; empty if the combination starts."""


def fits() -> list[Fit]:
    """Return all tested combinations of model and accelerator, with the memory model's results."""
    found: list[Fit] = []
    with (DATA / "model_fit.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            arguments = [
                row["model"],
                f"--tensor-parallel-size={row['tensor_parallel']}",
                f"--max-model-len={row['max_model_len']}",
            ]
            if row["memory_utilization"]:
                arguments.append(f"--gpu-memory-utilization={row['memory_utilization']}")
            hardware = {
                PREFIX + "ACCELERATOR": row["accelerator"],
                PREFIX + "CHIPS": row["chips"],
            }
            problem = ""
            try:
                deploy(parse(arguments), hardware)
            except EngineError as error:
                problem = str(error).split(". ")[0]
            found.append(Fit(row, problem))
    return found


@dataclass(frozen=True)
class Burst:
    """A replayed burst of prompts on an idle engine, with times in milliseconds."""

    row: Mapping[str, str]
    ttft: float
    tpot: float


def bursts() -> list[Burst]:
    """Replay the published bursts of long prompts with the engine's figures."""
    found: list[Burst] = []
    for row in rows():
        asked = re.fullmatch(r"burst (\d+)", row["load"])
        if asked is None:
            continue
        hardware = {PREFIX + "ACCELERATOR": row["accelerator"], PREFIX + "CHIPS": row["chips"]}
        arguments = [row["model"], f"--tensor-parallel-size={row['chips']}"]
        if row["precision"] == "fp8":
            arguments.append("--quantization=fp8")
        trace = [
            TraceRequest(0.0, int(row["input_tokens"]), int(row["output_tokens"]))
            for _ in range(int(asked.group(1)))
        ]
        result = replay(trace, [deploy(parse(arguments), hardware)], round_robin())
        found.append(Burst(row, 1e3 * result.mean_ttft(), 1e3 * result.mean_tpot()))
    return found
