"""SVG charts of curves over time: stacked panels with steps and legends."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twin.drawings import svg

_WIDTH_INCHES = 11
_PANEL_INCHES = 1.9


@dataclass(frozen=True)
class Curve:
    """A value that holds until the next point."""

    label: str
    points: tuple[tuple[float, float], ...]
    """Seconds and value, by time."""
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """Curves that share a scale."""

    title: str
    curves: tuple[Curve, ...]


def save(
    panels: Sequence[Panel],
    marks: Sequence[tuple[float, str]],
    file: Path,
    title: str,
    x_label: str = "seconds on the wall",
) -> None:
    """Draw panels into an SVG file.

    Args:
        panels: panels from top to bottom.
        marks: time in seconds and text of events, each drawn as a line through all panels.
        file: output file.
        title: title above the drawing.
        x_label: unit of the times.
    """
    pyplot = svg.pyplot()
    size = (_WIDTH_INCHES, 1.0 + _PANEL_INCHES * len(panels))
    figure, grid = pyplot.subplots(
        len(panels), 1, figsize=size, sharex=True, layout="constrained", squeeze=False
    )
    for (axes,), panel in zip(grid, panels, strict=True):
        _draw(axes, panel)
        for at, _ in marks:
            axes.axvline(at, color="#808080", linewidth=0.8)
    top, bottom = grid[0][0], grid[-1][0]
    for number, (at, text) in enumerate(marks):
        top.annotate(
            text,
            (at, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(3, 3 + 9 * (number % 2)),
            textcoords="offset points",
            fontsize=7,
        )
    top.set_title(title, fontsize=10, pad=22)
    bottom.set_xlabel(x_label, fontsize=8)
    svg.write(pyplot, figure, file)


def _draw(axes: Any, panel: Panel) -> None:
    for curve in panel.curves:
        axes.step(
            [at for at, _ in curve.points],
            [value for _, value in curve.points],
            where="post",
            label=curve.label,
            linestyle="--" if curve.dashed else "-",
            linewidth=1.4,
        )
    axes.set_ylabel(panel.title, fontsize=8)
    axes.set_ylim(bottom=0)
    axes.locator_params(axis="y", integer=True, nbins=6)
    axes.set_xlim(left=0)
    axes.tick_params(labelsize=7)
    if panel.curves:
        axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
