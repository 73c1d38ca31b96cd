"""Dashboards as data: pages of panels with PromQL and units, before they are rendered.

Three renderers read this and add only layout and color: `dashboard_cloud` for Cloud Monitoring,
`scripts/observe/grafana.py` for Grafana and `scripts/observe/page.js` for the page of the twin's
Prometheus.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from gke_inference.catalogue.data_file import read_table

from .promql import Scope, fill

_FOLDER = Path(__file__).parent / "data" / "dashboards"
_PANEL_KEYS = {"description", "may_be_empty", "needs", "queries", "tile", "title", "unit"}


@dataclass(frozen=True)
class Unit:
    """Unit of a panel, as each renderer writes it."""

    ucum: str
    """Unit of the Monitoring API's `unitOverride`."""
    grafana: str
    """Unit id of Grafana."""
    style: Literal["duration", "money", "number", "share"] = "number"
    """How the page formats a value."""
    scale: float = 1
    """Factor for the page, which formats durations from seconds and shares from percent."""
    suffix: str = ""
    """Text that the page appends to a single number."""


UNITS = {
    "bytes": Unit("By", "bytes", suffix="B"),
    "bytes/s": Unit("By/s", "Bps", suffix="B/s"),
    "count": Unit("1", "short"),
    "milliseconds": Unit("ms", "ms", "duration", 0.001),
    "percent": Unit("%", "percent", "share"),
    "ratio": Unit("10^2.%", "percentunit", "share", 100),
    "requests": Unit("1", "short", suffix="requests"),
    "requests/s": Unit("1/s", "reqps", suffix="req/s"),
    "seconds": Unit("s", "s", "duration"),
    "tokens/s": Unit("1/s", "cps", suffix="tokens/s"),
    "usd": Unit("{USD}", "currencyUSD", "money"),
    "usd/h": Unit("{USD}", "currencyUSD", "money", suffix="/ h"),
}
"""Units by the word of a panel. `ratio` is 0 to 1, `percent` is 0 to 100."""


@dataclass(frozen=True)
class Tile:
    """Current value of a panel, shown as one number at the top of the page."""

    title: str
    reduce: Literal["max", "sum"]
    """How several series are combined. A `max` above the panel's limit is highlighted."""


@dataclass(frozen=True)
class Query:
    """One expression of a panel."""

    expr: str
    legend: str
    """Name of each line, with `{{label}}` for a label's value."""
    is_limit: bool
    """Whether it shows a limit, such as an SLO, instead of a measurement."""


@dataclass(frozen=True)
class Panel:
    """One chart."""

    title: str
    description: str
    unit: Unit
    queries: tuple[Query, ...]
    may_be_empty: bool
    """Whether it may have no data on a healthy, serving platform."""
    tile: Tile | None


@dataclass(frozen=True)
class Row:
    """Charts that belong together."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Dashboard:
    """One page."""

    name: str
    """Part of resource and file names."""
    title: str
    description: str
    rows: tuple[Row, ...]
    was: str | None = None
    """Former name, in the aliases of its resource."""

    @property
    def panels(self) -> list[Panel]:
        """Every panel, in reading order."""
        return [panel for row in self.rows for panel in row.panels]


def dashboards(scope: Scope, *, window: str = "5m") -> tuple[Dashboard, ...]:
    """Return the dashboards of a platform.

    Args:
        scope: Scope of the dashboards.
        window: Window of rates, at least two scrape intervals.
    """
    return tuple(
        _dashboard(page, scope, window) for page in sources() if scope.has_one(page.get("needs"))
    )


@cache
def sources() -> tuple[dict[str, Any], ...]:
    """Return the files of data/dashboards, in order."""
    return tuple(read_table(file) for file in sorted(_FOLDER.glob("*.yaml")))


def _dashboard(page: dict[str, Any], scope: Scope, window: str) -> Dashboard:
    rows = [
        Row(row["title"], panels)
        for row in page["rows"]
        if scope.has_one(row.get("needs")) and (panels := _panels(row, scope, window))
    ]
    return Dashboard(page["name"], page["title"], page["description"], tuple(rows), page.get("was"))


def _panels(row: dict[str, Any], scope: Scope, window: str) -> tuple[Panel, ...]:
    return tuple(
        _panel(panel, scope, window) for panel in row["panels"] if scope.has_one(panel.get("needs"))
    )


def _panel(panel: dict[str, Any], scope: Scope, window: str) -> Panel:
    _check(panel)
    queries = [
        Query(
            fill(query["expr"], scope, window),
            fill(query["legend"], scope, window),
            query.get("role") == "limit",
        )
        for query in panel["queries"]
    ]
    return Panel(
        title=panel["title"],
        description=panel["description"],
        unit=UNITS[panel["unit"]],
        queries=tuple(queries),
        may_be_empty=bool(panel.get("may_be_empty", False)),
        tile=Tile(**panel["tile"]) if "tile" in panel else None,
    )


def _check(panel: dict[str, Any]) -> None:
    if unknown := sorted(panel.keys() - _PANEL_KEYS):
        raise ValueError(f"{panel['title']}: keys must be of {sorted(_PANEL_KEYS)}, got {unknown}")
    if panel["unit"] not in UNITS:
        units = tuple(UNITS)
        raise ValueError(f"{panel['title']}: unit must be one of {units}, got {panel['unit']!r}")
    reduce = panel.get("tile", {}).get("reduce", "sum")
    if reduce not in ("max", "sum"):
        raise ValueError(f"{panel['title']}: tile.reduce must be max or sum, got {reduce!r}")
