"""Matplotlib, configured to write reproducible SVG files, which also have a dark form."""

import importlib
import io
from pathlib import Path
from typing import Any, Final

DARK: Final = (
    "<style>@media(prefers-color-scheme:dark){svg{filter:invert(.88) hue-rotate(180deg)}}</style>"
)
"""Style of a chart that is drawn in light colors: on dark pages, lightness is inverted, and hues
stay."""


def pyplot() -> Any:
    """Return `matplotlib.pyplot` configured for reproducible files with text as text."""
    matplotlib: Any = importlib.import_module("matplotlib")
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "gke-inference"
    matplotlib.rcParams["svg.fonttype"] = "none"  # small, and can be searched
    return importlib.import_module("matplotlib.pyplot")


def write(plot: Any, figure: Any, file: Path) -> None:
    """Write a figure without a date, with a dark form, and close it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    file.write_text(darkened(text.getvalue()), encoding="utf-8")
    plot.close(figure)


def embedded(file: Path) -> str:
    """Return the chart of a file for a page, whose own style applies instead of the dark form."""
    text = file.read_text(encoding="utf-8")
    return text[text.index("<svg") :].replace(DARK, "")


def darkened(text: str) -> str:
    """Return an SVG file with a dark form."""
    return text.replace("<defs>", f"{DARK}\n <defs>", 1)
