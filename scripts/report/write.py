"""Writes the page: one HTML file with styles and pictures inside, and nothing from elsewhere."""

import math
from collections.abc import Callable
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from scripts.report.page import Page
from scripts.report.starts import PHASES

NAME = "index.html"
_AT_LEAST = "≥\N{NO-BREAK SPACE}"
_TEMPLATES = Path(__file__).parent / "templates"


def write_report(found: Page, folder: Path) -> Path:
    """Write the page of a stack to a folder, and return its path."""
    file = folder / NAME
    file.write_text(html(found), encoding="utf-8")
    return file


def html(found: Page) -> str:
    """Return the page as HTML."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    own: dict[str, Callable[..., str]] = {
        "cents": cents, "dollars": dollars, "part": part, "per_cent": per_cent, "time": time,
    }  # fmt: skip
    environment.filters.update(own)  # pyright: ignore[reportUnknownMemberType]
    template = environment.get_template("page.html")
    return template.render(page=found, phases=PHASES)


def dollars(value: float, is_lower_bound: bool = False) -> str:
    """Return an amount without cents: `$698,545`, or `≥ $698,545` where a price is missing."""
    return f"{_AT_LEAST if is_lower_bound else ''}${value:,.0f}"


def cents(value: float, is_lower_bound: bool = False) -> str:
    """Return an amount with cents: `$10.80`, or `≥ $10.80` where a price is missing."""
    return f"{_AT_LEAST if is_lower_bound else ''}${value:,.2f}"


def part(value: float, most: float) -> str:
    """Return how much of the width of a picture a value takes: `12.5%`."""
    return f"{100 * value / most:.3g}%" if most else "0%"


def per_cent(value: float) -> str:
    """Return a share as a reader says it: `59 %`."""
    return f"{100 * value:.0f}\N{NO-BREAK SPACE}%"


def time(seconds: float) -> str:
    """Return a time as a reader says it: `45 s`, `6 min 49 s`."""
    minutes, rest = divmod(math.floor(seconds + 0.5), 60)
    if not minutes:
        return f"{rest} s"
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"
