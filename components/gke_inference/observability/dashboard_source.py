"""The dashboards as data: rows of panels with PromQL, before anybody renders them."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from .promql import Dialect, Scope, fill

_FOLDER = Path(__file__).parent / "data" / "dashboards"
UNITS = (
    "count",
    "milliseconds",
    "percent",
    "ratio",
    "requests",
    "requests/s",
    "seconds",
    "tokens/s",
    "usd",
)
"""What a panel can count in. `ratio` is 0 to 1, `percent` is 0 to 100."""


@dataclass(frozen=True)
class Query:
    """One expression of a panel."""

    expr: str
    legend: str
    """Name of each line, with `{{label}}` for a label's value."""
    is_limit: bool
    """Whether it draws a limit, such as an SLO, and nothing that was measured."""


@dataclass(frozen=True)
class Panel:
    """One chart."""

    title: str
    description: str
    unit: str
    queries: tuple[Query, ...]
    may_be_empty: bool
    """Whether it may have no line in a platform that is well and serves."""


@dataclass(frozen=True)
class Row:
    """Charts that are read together."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Dashboard:
    """One page."""

    name: str
    """Part of names and file names."""
    title: str
    description: str
    rows: tuple[Row, ...]

    @property
    def panels(self) -> list[Panel]:
        """Every panel, in reading order."""
        return [panel for row in self.rows for panel in row.panels]


def dashboards(scope: Scope, dialect: Dialect, window: str = "5m") -> tuple[Dashboard, ...]:
    """Returns the dashboards of a platform.

    Args:
        scope: What they are about.
        dialect: Which Prometheus answers; panels of Google's own metrics are for the managed one.
        window: Of rates; at least two scrapes long.
    """
    return tuple(
        _dashboard(page, scope, dialect, window)
        for page in sources()
        if "needs" not in page or page["needs"] in scope.says
    )


@cache
def sources() -> tuple[dict[str, Any], ...]:
    """Returns the files of data/dashboards as they are, in order."""
    return tuple(yaml.safe_load(file.read_text("utf-8")) for file in sorted(_FOLDER.glob("*.yaml")))


def _dashboard(page: dict[str, Any], scope: Scope, dialect: Dialect, window: str) -> Dashboard:
    rows = [
        Row(
            row["title"],
            tuple(
                _panel(panel, scope, window)
                for panel in row["panels"]
                if panel.get("only", dialect) == dialect
            ),
        )
        for row in page["rows"]
    ]
    return Dashboard(page["name"], page["title"], page["description"], tuple(rows))


def _panel(panel: dict[str, Any], scope: Scope, window: str) -> Panel:
    if panel["unit"] not in UNITS:
        raise ValueError(f"{panel['title']}: unit must be one of {UNITS}, got {panel['unit']!r}")
    queries = [
        Query(fill(query["expr"], scope, window), query["legend"], query.get("role") == "limit")
        for query in panel["queries"]
    ]
    return Panel(
        title=panel["title"],
        description=panel["description"],
        unit=panel["unit"],
        queries=tuple(queries),
        may_be_empty=bool(panel.get("may_be_empty", False)),
    )
