"""Published points: what somebody measured on real hardware, as data/benchmarks.csv has it."""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from gke_inference.sizing.memory import RUNTIME_MEMORY_GB, kv_copies, kv_token_bytes
from gke_inference.sizing.shapes import ModelShape, shape_of
from planner.fit.chips import ACCELERATORS, accelerator
from planner.fit.tables import DATA
from planner.speed.roofline_step import Work, most_kept_busy, work

MOST_SEQUENCES = 1024
_BITS = {"bf16": 16, "fp16": 16, "bf16/fp8?": 16, "fp8": 8, "fp4": 4, "nvfp4": 4, "mxfp4": 4}
_UNIT = re.compile(r"(\d+) concurrent")
# columns of public collections of such rows, by ours
_ALSO = {
    "chips": "num_accel",
    "input_tokens": "isl",
    "output_tokens": "osl",
    "output_tokens_per_second": "output_tok_s_total",
}
_NO_STEADY_STATE = ("burst", "0.")


@dataclass(frozen=True)
class Point:
    """One quantity of a published row, and the load it was measured under."""

    row: Mapping[str, str]
    quantity: str
    """`output tokens/s`, `ms between tokens` or `ms to first token`."""
    published: float
    work: Work
    shape: ModelShape
    chips: int
    """Of a replica."""
    replicas: float
    sequences: float


def rows() -> list[dict[str, str]]:
    """Return the published rows as they stand in the data."""
    with (DATA / "benchmarks.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@cache
def points() -> tuple[Point, ...]:
    """Return every quantity of the data that the steady state speaks of."""
    return tuple(points_of(rows()))


def points_of(found: Sequence[Mapping[str, str]]) -> list[Point]:
    """Return the quantities of rows; rows that lack lengths, hardware or a size are passed over."""
    made: list[Point] = []
    for raw in found:
        row = {**raw, **{ours: raw[theirs] for ours, theirs in _ALSO.items() if theirs in raw}}
        usable = row["accelerator"] in ACCELERATORS and "disagg" not in row["kind"]
        if usable and all(_number(row.get(key, "")) for key in ("chips", "input_tokens")):
            made += _quantities(row)
    return made


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def shape_of_row(row: Mapping[str, str]) -> ModelShape:
    """Return the shape of a row's model at the precision it was measured in."""
    shape = shape_of(_name(row))
    bits = _BITS.get(row["precision"])
    if bits is None:  # MLPerf of 2024 does not say: its llama2-70b ran in fp8
        bits = 8 if row["kind"] == "mlperf" else shape.bits
    return replace(shape, bits=bits)


def _name(row: Mapping[str, str]) -> str:
    return row["model"].replace("llama3", "llama-3").replace("llama2", "llama-2")


def group(shape: ModelShape, row: Mapping[str, str]) -> tuple[int, float]:
    """Return the chips of one replica and how many replicas the row is of."""
    chips = int(float(row["chips"]))
    if row["kind"] != "mlperf":
        return chips, 1.0
    memory = accelerator(row["accelerator"]).memory_gb
    size = 1
    while size < min(8, chips) and shape.weights_gb > 0.7 * memory * size:
        size *= 2
    return size, chips / size


def sequences_of(row: Mapping[str, str], shape: ModelShape, chips: int, kv_bits: int) -> float:
    """Return how many sequences run at a time."""
    chip = accelerator(row["accelerator"])
    reach = float(row["input_tokens"]) + float(row["output_tokens"]) / 2
    memory = (chip.memory_gb * 0.92 - RUNTIME_MEMORY_GB[chip.kind]) * chips
    tokens = (memory - shape.weights_gb) * 1e9 / kv_token_bytes(shape, kv_bits)
    # a published server held what the memory model says it could not: nothing is known of the room
    room = min(tokens / reach, MOST_SEQUENCES) if tokens > reach else MOST_SEQUENCES
    asked = _UNIT.match(row["load"])
    if asked:
        return min(room, float(asked.group(1)))
    if row["tpot_stat"] == "NTPOT" and row["output_tokens_per_second"]:
        # Little's law, from the latency that was published beside the throughput
        return min(room, float(row["output_tokens_per_second"]) * float(row["tpot_ms"]) / 1e3)
    return room


def kv_bits_of(row: Mapping[str, str], shape: ModelShape) -> int:
    """Return the bits of the KV cache: quantized servers but vLLM quantize it, too."""
    return 8 if shape.bits < 16 and not row["engine"].startswith("vLLM") else 16


def _quantities(row: Mapping[str, str]) -> list[Point]:
    try:
        shape = shape_of_row(row)
    except ValueError:
        return []
    given, made = float(row["input_tokens"]), _number(row["output_tokens"])
    if made <= 0 or shape.embedding:
        return []
    chips, replicas = group(shape, row)
    kv_bits = kv_bits_of(row, shape)
    groups = chips if "EP" in row["parallelism"] and "D" in row["parallelism"] else 1
    one = work(
        shape,
        accelerator(row["accelerator"]),
        tensor=chips,
        kv_bits=kv_bits,
        given=given,
        made=made,
        groups=groups,
    )
    count = min(sequences_of(row, shape, chips, kv_bits), float(most_kept_busy(one)[0]))
    found: list[Point] = []

    def add(quantity: str, published: float) -> None:
        found.append(Point(row, quantity, published, one, shape, chips, replicas, count))

    if row["output_tokens_per_second"] and not row["load"].startswith(_NO_STEADY_STATE):
        add("output tokens/s", float(row["output_tokens_per_second"]))
    if row["tpot_ms"] and row["tpot_stat"] != "NTPOT" and "concurrent" in row["load"]:
        add("ms between tokens", float(row["tpot_ms"]))
    return found


def copies_of(point: Point) -> float:
    """Return the copies of the KV cache that the point's parallelism makes."""
    return kv_copies(point.shape, point.chips)
