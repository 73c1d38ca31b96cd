"""SVG charts of points: cost against misses, with the best point marked."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from twin.drawings import svg

_WIDTH_INCHES = 11
_PANEL_INCHES = 3.0


@dataclass(frozen=True)
class Points:
    """Points of one kind."""

    label: str
    points: tuple[tuple[float, float], ...]
    is_best: bool = False


@dataclass(frozen=True)
class Cloud:
    """Points that share a scale."""

    title: str
    points: tuple[Points, ...]
    limit: float
    """Height of the line that points may not exceed."""


def save(clouds: Sequence[Cloud], file: Path, x_label: str, y_label: str) -> None:
    """Draw panels with points into an SVG file."""
    pyplot = svg.pyplot()
    size = (_WIDTH_INCHES, 0.5 + _PANEL_INCHES * len(clouds))
    figure, grid = pyplot.subplots(
        len(clouds), 1, figsize=size, layout="constrained", squeeze=False
    )
    for (axes,), cloud in zip(grid, clouds, strict=True):
        for each in cloud.points:
            across, up = [x for x, _ in each.points], [y for _, y in each.points]
            marker = "*" if each.is_best else "o"
            axes.scatter(across, up, s=160 if each.is_best else 22, marker=marker, label=each.label)
        axes.axhline(cloud.limit, color="#808080", linewidth=0.8, linestyle="--")
        axes.set_title(cloud.title, fontsize=9, loc="left")
        axes.set_xlabel(x_label, fontsize=8)
        axes.set_ylabel(y_label, fontsize=8)
        axes.set_ylim(bottom=0)
        axes.tick_params(labelsize=7)
        axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    svg.write(pyplot, figure, file)
