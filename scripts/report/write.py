"""Writes the page: a self-contained HTML file."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from infra.estimate.usage import NOT_DEDUCTED
from planner.amount import missing_items
from scripts.report.number_formats import cents, dollars, of_unit, part, per_cent, span, time
from scripts.report.page import Page
from scripts.report.places import picture
from scripts.report.starts import PHASES

NAME = "index.html"
_TEMPLATES = Path(__file__).parent / "templates"


def write_report(found: Page, folder: Path) -> Path:
    """Write the page of a stack to a folder, and return its path."""
    file = folder / NAME
    file.write_text(html(found), encoding="utf-8")
    return file


def html(found: Page) -> str:
    """Return the page as HTML."""
    return _template().render(
        page=found, phases=PHASES, span=span, missing=missing_items, not_deducted=NOT_DEDUCTED
    )


@cache
def _template() -> Template:
    """Return the template of the page, compiled once."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    own: dict[str, Callable[..., object]] = {
        "cents": cents, "dollars": dollars, "of_unit": of_unit, "part": part, "per_cent": per_cent,
        "picture": picture, "time": time,
    }  # fmt: skip
    environment.filters.update(own)
    return environment.get_template("page.html")
