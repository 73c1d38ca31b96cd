"""The replayed ladder of published rates, and its plot."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from bench.laboratory.ladder import Stage, climb
from scripts.shared.tool_setup import ensure_tools
from scripts.terminal.console import console


def ladder_rows(folder: Path) -> list[dict[str, Any]]:
    """Replay both routings over all rates; write `ladder.svg` beside the rows.

    Args:
        folder: Folder for the plot.
    """
    ensure_tools("replays")
    stages: list[Stage] = []
    for routing in ("round-robin", "prefix-affine"):
        for stage in climb(routing):
            stages.append(stage)
            console.print(
                f"{routing} at {stage.rate}/s: {stage.simulated:.0f} tokens/s, "
                f"published {', '.join(f'{rate:.0f}' for rate in stage.published)}, "
                f"TTFT {stage.ttft:.2f} s"
            )
    _draw(stages, folder / "ladder.svg")
    return [{**asdict(stage), "error": round(stage.error, 3)} for stage in stages]


def _draw(stages: list[Stage], path: Path) -> None:
    mpl.rcParams["svg.hashsalt"] = "ladder"
    figure: Any = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for routing, colour in (("round-robin", "tab:red"), ("prefix-affine", "tab:blue")):
        mine = [stage for stage in stages if stage.routing == routing]
        rates = [stage.rate for stage in mine]
        axes.plot(rates, [s.simulated for s in mine], color=colour, label=f"{routing}, replayed")
        points = [(stage.rate, value) for stage in mine for value in stage.published]
        axes.scatter(*zip(*points, strict=True), color=colour, s=18, label=f"{routing}, published")
    axes.set_xlabel("requests a second")
    axes.set_ylabel("output tokens a second, with draining")
    axes.legend()
    figure.savefig(path, metadata={"Date": None})
