"""Draws a timeline as SVG: a lane for each rung, cool-down and workload, marks for events."""

import importlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from twin.timeline import Bar, Drawing, Event, clock, drawing

_COLOURS = {
    "creating": "#c7d7ea",
    "node": "#4878a8",
    "leaving": "#e0a030",
    "pending": "#e8b0a0",
    "ready": "#5a9e5a",
    "cooling": "#b48cc0",
}
_MARKS = {"scenario.step": "#202020", "rung.stockout": "#c03028", "rung.quota": "#c03028"}
_ROW = 0.42


def rows_of(found: Drawing) -> dict[str, list[list[Bar]]]:
    """Return each lane's bars in as few rows as let none overlap; one subject stays in one row."""
    lanes: dict[str, list[list[Bar]]] = {lane: [] for lane in found.lanes}
    for lane, rows in lanes.items():
        subjects: dict[str, list[Bar]] = {}
        for bar in sorted((b for b in found.bars if b.lane == lane), key=lambda b: b.start):
            subjects.setdefault(bar.label, []).append(bar)
        for bars in subjects.values():
            row = next((row for row in rows if row[-1].end <= bars[0].start), None)
            if row is None:
                rows.append(bars)
            else:
                row.extend(bars)
    return lanes


def save(events: Iterable[Event], speed: float, file: Path, title: str = "Timeline") -> None:
    """Draw events into an SVG file.

    Args:
        events: from `Events.read`.
        speed: how many times faster than Google's the twin's clock is; it is printed.
        file: where to.
        title: above the drawing.
    """
    matplotlib: Any = importlib.import_module("matplotlib")
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "gke-inference"  # the same events draw the same file
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    found = drawing(events)
    lanes = rows_of(found)
    height = sum(max(1, len(rows)) for rows in lanes.values())
    figure, axes = pyplot.subplots(figsize=(11, 1.6 + _ROW * max(height, 3)))
    ticks = _draw_lanes(axes, lanes)
    axes.set_yticks([at for at, _ in ticks], [name for _, name in ticks], fontsize=8)
    axes.set_ylim(height + 0.2, -0.6)
    axes.set_xlim(0, max(found.length, 1.0))
    for number, mark in enumerate(m for m in found.marks if m.kind == "scenario.step"):
        axes.axvline(mark.time, color=_MARKS[mark.kind], linewidth=1)
        axes.text(mark.time, -0.1 - 0.25 * (number % 2), f" {mark.label}", fontsize=7, va="bottom")
    for mark in found.marks:
        if mark.kind != "scenario.step":
            axes.plot(mark.time, height, marker="x", color=_MARKS[mark.kind], clip_on=False)
    _axes_texts(axes, speed, title)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(file, format="svg", metadata={"Date": None})
    pyplot.close(figure)


def _draw_lanes(axes: Any, lanes: dict[str, list[list[Bar]]]) -> list[tuple[float, str]]:
    top = 0
    ticks: list[tuple[float, str]] = []
    for lane, rows in lanes.items():
        for number, row in enumerate(rows):
            for bar in row:
                axes.barh(
                    top + number + 0.4,
                    max(bar.end - bar.start, 0.01),
                    left=bar.start,
                    height=0.7,
                    color=_COLOURS[bar.kind],
                    edgecolor="none",
                )
        size = max(1, len(rows))
        ticks.append((top + size / 2 - 0.1, lane))
        top += size
    return ticks


def _axes_texts(axes: Any, speed: float, title: str) -> None:
    twin_axis: Any = axes.secondary_xaxis("top")
    ticks = axes.get_xticks()
    left, right = axes.get_xlim()
    shown = [tick for tick in ticks if left <= tick <= right]
    twin_axis.set_xticks(shown, [clock(tick * speed) for tick in shown], fontsize=7)
    twin_axis.set_xlabel(f"on Google's clock ({speed:g} times the wall's)", fontsize=8)
    axes.set_xlabel("seconds on the wall; x: no capacity or no quota", fontsize=8)
    axes.set_title(title, fontsize=10)
    handles = [
        importlib.import_module("matplotlib.patches").Patch(color=colour, label=kind)
        for kind, colour in _COLOURS.items()
    ]
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.1)}
    axes.legend(handles=handles, fontsize=7, ncol=len(handles), frameon=False, **place)
