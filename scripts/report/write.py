"""Writes the page: one HTML file with styles and pictures inside, and nothing from elsewhere."""

import math
from collections.abc import Callable
from datetime import date
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from infra.quota import Need
from infra.quota_check import Limit
from infra.stack import Platform
from scripts.report.page import Page, page, unlimited
from scripts.report.starts import PHASES

NAME = "index.html"
_AT_LEAST = "≥\N{NO-BREAK SPACE}"
_TEMPLATES = Path(__file__).parent / "templates"


def write_report(
    platform: Platform,
    stack: str,
    folder: Path,
    *,
    day: date,
    now: float | None = None,
    limit_of: Callable[[Need], Limit | None] = unlimited,
) -> Path:
    """Write the page of a stack beside what `render` wrote of it, and return its path.

    Args:
        platform: the stack.
        stack: its name.
        folder: what `render` wrote, and where the page goes.
        day: on which prices are looked at.
        now: what runs of it costs an hour, where something runs.
        limit_of: the limit of a quota; None where it is not known.
    """
    file = folder / NAME
    found = page(platform, stack, folder, day=day, now=now, limit_of=limit_of)
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
