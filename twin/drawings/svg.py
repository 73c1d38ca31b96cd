"""Matplotlib, configured to write reproducible SVG files."""

import importlib
from pathlib import Path
from typing import Any


def pyplot() -> Any:
    """Return `matplotlib.pyplot` configured for reproducible files with text as text."""
    matplotlib: Any = importlib.import_module("matplotlib")
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "gke-inference"
    matplotlib.rcParams["svg.fonttype"] = "none"  # small, and can be searched
    return importlib.import_module("matplotlib.pyplot")


def write(plot: Any, figure: Any, file: Path) -> None:
    """Write a figure without a date, and close it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, format="svg", metadata={"Date": None})
    plot.close(figure)
