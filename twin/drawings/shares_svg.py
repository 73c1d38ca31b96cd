"""Shares of a total as SVG: one stacked bar per payer."""

from collections.abc import Mapping
from pathlib import Path

from twin.drawings import svg

_WIDTH_INCHES = 9
_BAR_INCHES = 0.45
_COLOURS = (
    "#4878a8", "#b8cce0", "#e0a030", "#f0d090", "#808080", "#7cb5a4", "#b48cc0", "#c8c8c8",
)  # fmt: skip


def save(bars: Mapping[str, Mapping[str, float]], file: Path, label: str, title: str) -> None:
    """Draw a stacked bar for each name, from top to bottom, into an SVG file.

    Args:
        bars: Values of the parts of each bar, by name of the bar and of the part.
        file: SVG file.
        label: Label of the axis.
        title: Title.
    """
    plot = svg.pyplot()
    size = (_WIDTH_INCHES, 1.3 + _BAR_INCHES * len(bars))
    figure, axes = plot.subplots(figsize=size, layout="constrained")
    parts = list(dict.fromkeys(part for bar in bars.values() for part in bar))
    ends = [0.0] * len(bars)
    for number, part in enumerate(parts):
        lengths = [bar.get(part, 0.0) for bar in bars.values()]
        colour = _COLOURS[number % len(_COLOURS)]
        axes.barh(range(len(bars)), lengths, left=ends, height=0.7, color=colour, label=part)
        ends = [end + length for end, length in zip(ends, lengths, strict=True)]
    for row, end in enumerate(ends):
        axes.annotate(
            f"{end:,.0f}",
            (end, row),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    axes.set_yticks(range(len(bars)), list(bars), fontsize=9)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_xlim(0, 1.12 * max([*ends, 0.01]))  # room for the last bar's value
    axes.set_xlabel(label, fontsize=8)
    axes.set_title(title, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(fontsize=8, loc="outside right upper", frameon=False)
    svg.write(plot, figure, file)
