"""Charts of the laboratory's rows: throughput and slowest first tokens by rate and policy."""

import importlib
import statistics
from pathlib import Path
from typing import Any

from bench.laboratory.policies import BASELINE, DEFAULTS, SHIPPED
from bench.laboratory.rows import Row
from twin.drawings.svg import write

_COLOURS = {
    BASELINE: "#c03028",
    "random": "#e0a030",
    "least_request": "#b48cc0",
    DEFAULTS: "#4878a8",
    SHIPPED: "#3f8f5f",
}
_SIZE_INCHES = (10.5, 3.8)


def points(rows: list[Row], workload: str, policy: str, figure: str) -> list[tuple[float, float]]:
    """Return (rate, mean over seeds) of `throughput_tok_s` or of `ttft_ms`' p99.

    Rows without the figure are left out.
    """
    found: dict[float, list[float]] = {}
    for row in rows:
        if (row["workload"], row["policy"]) == (workload, policy):
            times = row["ttft_ms"]
            value = row[figure] if figure != "ttft_ms" else times and times["p99"]
            if value is None:
                continue
            found.setdefault(float(row["rate_qps"]), []).append(float(value))
    return [(rate, statistics.fmean(values)) for rate, values in sorted(found.items())]


def draw(rows: list[Row], folder: Path) -> list[Path]:
    """Write a chart for each workload and return the files."""
    matplotlib: Any = importlib.import_module("matplotlib")
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "gke-inference"
    plot: Any = importlib.import_module("matplotlib.pyplot")
    files: list[Path] = []
    for workload in dict.fromkeys(str(row["workload"]) for row in rows):
        figure, (left, right) = plot.subplots(1, 2, figsize=_SIZE_INCHES, layout="constrained")
        for policy, colour in _COLOURS.items():
            style: dict[str, Any] = {"color": colour, "marker": "o", "markersize": 4}
            style |= {"label": policy, "linewidth": 2.4 if policy == SHIPPED else 1.4}
            for axes, name in ((left, "throughput_tok_s"), (right, "ttft_ms")):
                found = points(rows, workload, policy, name)
                if found:
                    axes.plot(*zip(*found, strict=True), **style)
        left.set_title(f"{workload}: output tokens a second", fontsize=10)
        right.set_title(f"{workload}: p99 of the time to the first token, ms", fontsize=10)
        right.set_yscale("log")
        left.set_ylim(bottom=0)
        for axes in (left, right):
            axes.set_xlabel("requests a second offered", fontsize=9)
            axes.grid(visible=True, color="#e4e4e4", linewidth=0.6)
            axes.spines[["top", "right"]].set_visible(False)
            axes.tick_params(labelsize=8)
        left.legend(fontsize=8, frameon=False)
        file = folder / f"routing-{workload.replace('_', '-')}.svg"
        write(plot, figure, file)
        files.append(file)
    return files
