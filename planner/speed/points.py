"""Published measurements on real hardware, from data/benchmarks.csv."""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from gke_inference.sizing.memory import RUNTIME_MEMORY_GB, kv_token_bytes
from gke_inference.sizing.shapes import ModelShape, shape_of
from planner.fit.chips import ACCELERATORS, accelerator
from planner.fit.tables import DATA
from planner.speed.constants import reached_of
from planner.speed.links import HIGH_THROUGHPUT
from planner.speed.roofline_step import Work, most_kept_busy, work

MOST_SEQUENCES = 1024
BITS = {"bf16": 16, "fp16": 16, "bf16/fp8?": 16, "fp8": 8, "fp4": 4, "nvfp4": 4, "mxfp4": 4}
"""Bits of a weight by the precision of a row."""
_STAGES = re.compile(r"PP(\d+)")
_UNIT = re.compile(r"(\d+) concurrent")
# columns of public collections of such rows, by our column name
_ALSO = {
    "chips": "num_accel",
    "input_tokens": "isl",
    "output_tokens": "osl",
    "output_tokens_per_second": "output_tok_s_total",
}
Knee = tuple[float, float]
"""Throughput in tokens per second, and requests in the server, including waiting ones."""
_NO_STEADY_STATE = ("burst", "0.")


@dataclass(frozen=True)
class Point:
    """One quantity of a published row, and the load during the measurement."""

    row: Mapping[str, str]
    quantity: str
    """One of `QUANTITIES`."""
    published: float
    work: Work
    shape: ModelShape
    chips: int
    """Chips per replica."""
    replicas: float
    sequences: float
    asked: float
    """Requests that clients kept in flight; `sequences` if it is not stated."""
    waves: float
    """Requests of the whole run, divided by those in flight."""


THROUGHPUT, BETWEEN, FIRST = "output tokens/s", "ms between tokens", "ms to first token"
QUANTITIES = (THROUGHPUT, BETWEEN, FIRST)
"""What a point can be, each with its own error."""
LOOPS = "closed_loops.csv"
"""Rows of closed loops from a public collection, beside those of benchmarks.csv."""
_MEAN_OF_NOMINAL = {"inferencex": 0.9}
"""Mean length over the stated one: InferenceX draws lengths between 0.8 and 1 times it
(benchmarks/*.sh, `--random-range-ratio`)."""
_WAVES_OF_KIND, _WAVES = {"measured": 3.0}, 10.0
"""Requests over concurrency: InferenceX sends ten times as many (`--num-prompts`), our own
measurements three times (docs/benchmarks.md). Ten for other rows: assumed."""
_FIRST_STATS = ("mean", "median", "p50")
ADDED: list[Mapping[str, str]] = []
"""Rows of this process' user, to fit beside the published ones (`planner.speed.measured`)."""


def rows() -> list[dict[str, str]]:
    """Return the published rows of the data."""
    with (DATA / "benchmarks.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@cache
def loops() -> tuple[dict[str, str], ...]:
    """Return the rows of `LOOPS`, also those with a `note`, which cannot be as they are stated."""
    with (DATA / LOOPS).open(newline="") as file:
        return tuple(csv.DictReader(file))


@cache
def points() -> tuple[Point, ...]:
    """Return every quantity of the data, and of rows added, that the steady-state model covers."""
    return tuple(points_of(_usable()))


def points_of_model(size: str) -> list[Point]:
    """Return the points of one model, by its size in billions, such as `70.6`."""
    return points_of([row for row in _usable() if _size(_name(row)) == size])


def _usable() -> list[Mapping[str, str]]:
    return [*rows(), *(row for row in loops() if not row["note"]), *ADDED]


@cache
def _size(name: str) -> str:
    try:
        return f"{shape_of(name).parameters_billion:g}"
    except ValueError:
        return ""


def points_of(found: Sequence[Mapping[str, str]]) -> list[Point]:
    """Return the quantities of rows; skip rows without lengths, hardware or size."""
    made: list[Point] = []
    named = [
        {**raw, **{ours: raw[theirs] for ours, theirs in _ALSO.items() if theirs in raw}}
        for raw in found
    ]
    knees = _knees(named)
    for row in named:
        usable = row["accelerator"] in ACCELERATORS and "disagg" not in row["kind"]
        if usable and all(_number(row.get(key, "")) for key in ("chips", "input_tokens")):
            made += _quantities(row, knees.get(_system(row), ()))
    return made


_SYSTEM = ("model", "precision", "accelerator", "chips", "input_tokens", "output_tokens")


def _system(row: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(row[key] for key in _SYSTEM)


def _knees(found: Sequence[Mapping[str, str]]) -> dict[tuple[str, ...], tuple[Knee, ...]]:
    """Return the published pairs of throughput and requests in the server, by system."""
    knees: dict[tuple[str, ...], tuple[Knee, ...]] = {}
    for row in found:
        if row["tpot_stat"] == "NTPOT" and row["output_tokens_per_second"]:
            knees[_system(row)] = (*knees.get(_system(row), ()), _knee(row))
    return knees


def _knee(row: Mapping[str, str]) -> Knee:
    """Return throughput and, by Little's law, the requests in the server."""
    rate = float(row["output_tokens_per_second"])
    return rate, rate * float(row["tpot_ms"]) / 1e3


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def shape_of_row(row: Mapping[str, str]) -> ModelShape:
    """Return the shape of a row's model at the precision of the measurement."""
    shape = shape_of(_name(row))
    bits = BITS.get(row["precision"])
    if bits is None:  # not stated for MLPerf 2024: its llama2-70b ran in fp8
        bits = 8 if row["kind"] == "mlperf" else shape.bits
    return replace(shape, bits=bits)


def _name(row: Mapping[str, str]) -> str:
    return row["model"].replace("llama3", "llama-3").replace("llama2", "llama-2")


def group(shape: ModelShape, row: Mapping[str, str]) -> tuple[int, float]:
    """Return the chips per replica and the number of replicas of the row."""
    chips = int(float(row["chips"]))
    if row["kind"] != "mlperf":
        return chips, 1.0
    memory = accelerator(row["accelerator"]).memory_gb
    size = 1
    while size < min(8, chips) and shape.weights_gb > 0.7 * memory * size:
        size *= 2
    return size, chips / size


def stages_of(row: Mapping[str, str]) -> int:
    """Return the pipeline stages of a row, all on one host."""
    found = _STAGES.search(row["parallelism"])
    return int(found[1]) if found else 1


def split_of(row: Mapping[str, str]) -> str:
    """Return how a row's model is split, if not by tensors alone: `stages` or `experts`."""
    if stages_of(row) > 1:
        return "stages"
    return "experts" if "DEP" in row["parallelism"] else ""


def sequences_of(
    row: Mapping[str, str], shape: ModelShape, chips: int, kv_bits: int, knees: Sequence[Knee] = ()
) -> float:
    """Return the number of concurrent sequences.

    A latency per request (NTPOT) includes the time that a request waits. Throughput grows with the
    batch, so a server that publishes no more than with fewer requests runs no larger batch: the
    other requests wait.

    Args:
        row: Published row.
        shape: Shape of its model.
        chips: Chips per replica.
        kv_bits: Bits of a KV-cache value.
        knees: Throughput of the same system, with the requests in the server.
    """
    chip = accelerator(row["accelerator"])
    part = _MEAN_OF_NOMINAL.get(row["kind"], 1.0)
    reach = part * (float(row["input_tokens"]) + float(row["output_tokens"]) / 2)
    memory = (chip.memory_gb * 0.92 - RUNTIME_MEMORY_GB[chip.kind]) * chips
    tokens = (memory - shape.weights_gb) * 1e9 / kv_token_bytes(shape, kv_bits)
    # the published server held more than the memory model allows, so the capacity is unknown
    room = min(tokens / reach, MOST_SEQUENCES) if tokens > reach else MOST_SEQUENCES
    asked = _UNIT.match(row["load"])
    if asked:
        return min(room, float(asked.group(1)))
    if row["tpot_stat"] == "NTPOT" and row["output_tokens_per_second"]:
        own = _knee(row)
        return min(room, own[1], *(held for rate, held in knees if rate >= own[0]))
    return room


def kv_bits_of(row: Mapping[str, str], shape: ModelShape) -> int:
    """Return the bits of the KV cache.

    Quantized servers quantize it as well. vLLM does so only if asked, as by InferenceX
    (benchmarks/70b_fp8_h200_slurm.sh @409e9a4, `kv-cache-dtype: fp8`).
    """
    quantizes = not row["engine"].startswith("vLLM") or (
        row["kind"] == "inferencex" and row["engine"] == "vLLM"
    )
    return 8 if shape.bits < 16 and quantizes else 16


def _quantities(row: Mapping[str, str], knees: Sequence[Knee]) -> list[Point]:
    try:
        shape = shape_of_row(row)
    except ValueError:
        return []
    part = _MEAN_OF_NOMINAL.get(row["kind"], 1.0)
    given, made = part * float(row["input_tokens"]), part * _number(row["output_tokens"])
    if made <= 0 or shape.embedding:
        return []
    chips, replicas = group(shape, row)
    kv_bits = kv_bits_of(row, shape)
    stages = stages_of(row)
    groups = chips if split_of(row) == "experts" else 1
    one = work(
        shape,
        accelerator(row["accelerator"]),
        tensor=chips // stages,
        stages=stages,
        network="",
        kv_bits=kv_bits,
        given=given,
        made=made,
        groups=groups,
        backend=HIGH_THROUGHPUT,
        link_gbps=_number(row.get("link_gb_per_s", "")) or None,
        reached=reached_of(row["engine"], row["accelerator"], shape),
    )
    count = min(sequences_of(row, shape, chips, kv_bits, knees), float(most_kept_busy(one)[0]))
    found: list[Point] = []

    asked = _UNIT.match(row["load"])
    in_flight = max(count, float(asked[1])) if asked else count
    waves = _WAVES_OF_KIND.get(row["kind"], _WAVES)
    if asked and _number(row.get("requests", "")):
        waves = max(1.0, float(row["requests"]) / float(asked[1]))

    def add(quantity: str, published: float) -> None:
        found.append(
            Point(row, quantity, published, one, shape, chips, replicas, count, in_flight, waves)
        )

    if row["output_tokens_per_second"] and not row["load"].startswith(_NO_STEADY_STATE):
        add(THROUGHPUT, float(row["output_tokens_per_second"]))
    if row["tpot_ms"] and row["tpot_stat"] != "NTPOT" and "concurrent" in row["load"]:
        add(BETWEEN, float(row["tpot_ms"]))
    if row["ttft_ms"] and row["ttft_stat"] in _FIRST_STATS and asked:
        add(FIRST, float(row["ttft_ms"]))
    return found
