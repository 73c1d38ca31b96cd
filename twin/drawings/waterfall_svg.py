"""Spans of one request as SVG: one bar per span, children below their parent."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from twin.drawings import svg

_WIDTH_INCHES = 11
_BAR_INCHES = 0.34
_COLOURS = ("#4878a8", "#7cb5a4", "#e0a030", "#b48cc0", "#c03028", "#808080")
_INDENT = "    "


@dataclass(frozen=True)
class Bar:
    """One span."""

    name: str
    service: str
    depth: int
    start_ms: float
    """Seconds since the start of the trace."""
    length_ms: float


def save(bars: Sequence[Bar], file: Path, title: str) -> None:
    """Draw bars into an SVG file, in order from top to bottom, with one color per service."""
    plot = svg.pyplot()
    size = (_WIDTH_INCHES, 1.2 + _BAR_INCHES * len(bars))
    figure, axes = plot.subplots(figsize=size, layout="constrained")
    services = list(dict.fromkeys(bar.service for bar in bars))
    end = max((bar.start_ms + bar.length_ms for bar in bars), default=0.0)
    for number, service in enumerate(services):
        rows = [(row, bar) for row, bar in enumerate(bars) if bar.service == service]
        axes.barh(
            [row for row, _ in rows],
            [bar.length_ms for _, bar in rows],
            left=[bar.start_ms for _, bar in rows],
            height=0.7,
            color=_COLOURS[number % len(_COLOURS)],
            label=service,
        )
    for row, bar in enumerate(bars):
        axes.annotate(
            f"{bar.length_ms:.1f} ms",
            (bar.start_ms + bar.length_ms, row),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=7,
        )
    names = [f"{_INDENT * bar.depth}{bar.name}" for bar in bars]
    axes.set_yticks(range(len(bars)), names, fontsize=8, ha="left")
    axes.tick_params(axis="y", pad=8 + 4.6 * max((len(name) for name in names), default=0))
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_xlim(0, 1.12 * max(end, 0.001))  # room for the last bar's length
    axes.set_xlabel("milliseconds", fontsize=8)
    axes.set_title(title, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(fontsize=7, loc="outside right upper", frameon=False)
    svg.write(plot, figure, file)
