"""The page and the plot that compare the engine model with published measurements."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from statistics import median

from planner.speed.errors import family as family_of
from planner.speed.errors import left_out
from simulator.engine.calibration import Compared, Family, bursts, families, fits
from twin.drawings.svg import DARK

_OPENING = """\
# Accuracy of the engine model

The estimates of the simulated engine's cost model for every usable published point, with their
errors. For the model and its limits, see [engine-model.md](../engine-model.md). The points and
their sources are in [benchmarks.csv](../../planner/data/benchmarks.csv).

Each family of engine and hardware has four fitted parameters: the fractions of peak compute
(*prefill*) and of peak bandwidth (*decode*) that it reaches, the additional time of each step
(*overhead*), and the slowdown of a mixture of experts (*mixture*). Each error comes from a
simulation whose parameters were fitted **without** that point (leave-one-out). *Simulated vLLM* is
the error, median and worst, with the parameters that the simulated vLLM uses, which differ from the
fit in some families.

## Three models of speed

- **The twin** (simulated engines, `replay` and the routing laboratory) uses the roofline with one
  set of constants for each kind of accelerator, in [chips.py](../../planner/fit/chips.py). Its
  errors are the column *simulated vLLM*.
- **This page alone** fits the same roofline to each family, to show what a roofline can explain.
  Its errors are the columns *median error* and *worst*. Nothing else uses these parameters.
- **The planner** (`plan` and `cost`) uses the roofline with constants of each engine and generation
  of hardware, and a correction of single models. Its errors are in
  [planner-accuracy.md](planner-accuracy.md).

The numbers differ because these models know different things. The planner's correction follows
nearby points of the same hardware, which stay in when one point is left out: its median error on
TPU v6e is {planner}. Four parameters cannot follow them. With all points of TPU v6e left out, the
planner's median error on it is {planner_accelerator}. The twin has no correction.

![Simulated over published](../images/engine-model.svg)
"""
_SIZE, _MARGIN = 560, 56
_COLOURS = (
    "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f",
    "#bcbd22", "#17becf", "#000000",
)  # fmt: skip


@cache
def engine_page() -> str:
    """Return the page: families, points, bursts and memory fits."""
    found = families()
    opening = _OPENING.replace("{planner}", _planner_error("point")).replace(
        "{planner_accelerator}", _planner_error("accelerator")
    )
    return "\n".join(
        [
            opening,
            *_family_table(found),
            *_burst_table(),
            *_fit_section(),
            *_point_tables(found),
            "",
        ]
    )


def _planner_error(by: str) -> str:
    """Return the planner's median error on TPU v6e, by what is left out with each point."""
    only = "tpu-v6e-slice" if by == "accelerator" else ""
    return _percent(
        left_out(by, only)
        .where(lambda item: family_of(item.point) == "vLLM on tpu-v6e-slice")
        .median
    )


def _percent(value: float) -> str:
    return f"{value:.0%}"


def _family_table(found: Sequence[Family]) -> list[str]:
    everything = sorted(error for family in found for error in family.errors)
    lines = [
        f"{len(everything)} quantities of {len(found)} families; the median error is "
        f"{_percent(median(everything))}, nine in ten are below "
        f"{_percent(everything[int(0.9 * (len(everything) - 1))])}.",
        "",
        "| family | points | prefill | decode | overhead, ms | mixture | median error | worst | "
        "simulated vLLM |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for family in found:
        figures, errors = family.efficiency, family.errors
        own = family.engine_errors
        used = f"{_percent(median(own))}, {_percent(own[-1])}"
        used = used if family.name.startswith("vLLM") else "-"
        lines.append(
            f"| {family.name} | {len(errors)} | {figures.prefill:.2f} | {figures.decode:.2f} | "
            f"{figures.overhead_seconds * 1e3:.1f} | {figures.mixture:.1f} | "
            f"{_percent(median(errors))} | {_percent(errors[-1])} | {used} |"
        )
    return lines


def _burst_table() -> list[str]:
    lines = [
        "",
        "## Bursts of long prompts",
        "",
        "Replayed by the server's scheduler with the parameters of the simulated engine. "
        "Mean times in ms.",
        "",
        "| model, hardware | burst | TTFT published | simulated | error | "
        "between tokens published | simulated | error |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for burst in bursts():
        row = burst.row
        ttft, tpot = float(row["ttft_ms"]), float(row["tpot_ms"])
        lines.append(
            f"| {row['model']} {row['precision']}, {row['chips']} x {row['accelerator']} | "
            f"{row['load'].removeprefix('burst ')} | {ttft:.0f} | {burst.ttft:.0f} | "
            f"{burst.ttft / ttft - 1:+.0%} | {tpot:.1f} | {burst.tpot:.1f} | "
            f"{burst.tpot / tpot - 1:+.0%} |"
        )
    return lines


def _fit_section() -> list[str]:
    tried = fits()
    failed = [fit for fit in tried if fit.problem]
    lines = [
        "",
        "## Memory fit",
        "",
        f"Of {len(tried)} combinations of model, hardware and context that "
        "GoogleCloudPlatform/accelerated-platforms runs, the memory model accepts "
        f"{len(tried) - len(failed)}. It rejects:",
        "",
        "| model | hardware | context | message of the engine |",
        "|---|---|---|---|",
    ]
    for fit in failed:
        row = fit.row
        lines.append(
            f"| {row['model']} | {row['chips']} x {row['accelerator']} | {row['max_model_len']} | "
            f"{fit.problem} |"
        )
    return lines


def _point_tables(found: Sequence[Family]) -> list[str]:
    lines = ["", "## All points"]
    for family in found:
        lines += [
            "",
            f"### {family.name}",
            "",
            "| model | hardware | in, out | load | quantity | published | simulated | error |",
            "|---|---|---|---|---|---|---|---|",
            *(_point_line(item) for item in family.compared),
        ]
    sources = Counter(item.point.row["kind"] for family in found for item in family.compared)
    counted = ", ".join(f"{kind} {count}" for kind, count in sorted(sources.items()))
    return [*lines, "", f"Kinds of source: {counted}."]


def _point_line(item: Compared) -> str:
    row = item.point.row
    return (
        f"| {row['model']} {row['precision']} | {row['chips']} x {row['accelerator']} | "
        f"{row['input_tokens']}, {row['output_tokens']} | {row['load']} | {item.point.quantity} | "
        f"{item.point.published:,.1f} | {item.simulated:,.1f} | {item.error:+.0%} |"
    )


def engine_plot() -> str:
    """Return an SVG: simulated against published values, on logarithmic axes."""
    found = families()
    pairs = [(item.point.published, item.simulated) for f in found for item in f.compared]
    low = math.floor(math.log10(min(min(pair) for pair in pairs)))
    high = math.ceil(math.log10(max(max(pair) for pair in pairs)))

    def at(value: float) -> float:
        return _MARGIN + (math.log10(value) - low) / (high - low) * (_SIZE - 2 * _MARGIN)

    width = _SIZE + 300
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {_SIZE}" '
        'font-family="sans-serif" font-size="12">',
        DARK,
        f'<rect width="{width}" height="{_SIZE}" fill="white"/>',
        *_axes(low, high, at),
    ]
    for number, family in enumerate(found):
        colour = _COLOURS[number % len(_COLOURS)]
        y = _MARGIN + 20 * number
        lines.append(f'<circle cx="{_SIZE}" cy="{y}" r="5" fill="{colour}"/>')
        lines.append(f'<text x="{_SIZE + 12}" y="{y + 4}">{family.name}</text>')
        for item in family.compared:
            cx, cy = at(item.point.published), _SIZE - at(item.simulated)
            lines.append(
                f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="3" fill="{colour}" fill-opacity="0.6"/>'
            )
    return "\n".join([*lines, "</svg>", ""])


def _axes(low: int, high: int, at: Callable[[float], float]) -> list[str]:
    first, last = at(10.0**low), at(10.0**high)
    middle = _SIZE / 2
    lines: list[str] = []
    for exponent in range(low, high + 1):
        place = at(10.0**exponent)
        across = (
            f'x1="{place:.1f}" y1="{_SIZE - first:.1f}" x2="{place:.1f}" y2="{_SIZE - last:.1f}"'
        )
        up = f'x1="{first:.1f}" y1="{_SIZE - place:.1f}" x2="{last:.1f}" y2="{_SIZE - place:.1f}"'
        lines += [f'<line {across} stroke="#ddd"/>', f'<line {up} stroke="#ddd"/>']
        label = f"{10**exponent:,}" if exponent >= 0 else f"{10.0**exponent:g}"
        lines.append(
            f'<text x="{place:.1f}" y="{_SIZE - _MARGIN + 18}" text-anchor="middle">{label}</text>'
        )
        lines.append(
            f'<text x="{_MARGIN - 6}" y="{_SIZE - place + 4:.1f}" text-anchor="end">{label}</text>'
        )
    for factor, dash in (
        (1.0, ""),
        (1.2, ' stroke-dasharray="4"'),
        (1 / 1.2, ' stroke-dasharray="4"'),
    ):
        start, end = 10.0**low, 10.0**high
        lines.append(
            f'<line x1="{at(start):.1f}" y1="{_SIZE - at(start * factor):.1f}" '
            f'x2="{at(end):.1f}" y2="{_SIZE - at(end * factor):.1f}" stroke="#555"{dash}/>'
        )
    lines.append(
        f'<text x="{middle}" y="{_SIZE - 12}" text-anchor="middle">published: output tokens/s, '
        "or ms between tokens</text>"
    )
    lines.append(
        f'<text x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})">'
        "simulated; dashed: 20 % off</text>"
    )
    return lines
