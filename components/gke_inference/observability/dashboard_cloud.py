"""Dashboards in the format of Cloud Monitoring (`projects.dashboards`, Monitoring API v1)."""

from typing import Any

from .dashboard_source import Dashboard, Panel, Row

_COLUMNS = 48
_WIDTH, _HEIGHT, _HEADER_HEIGHT = 24, 16, 4


def cloud_dashboard(dashboard: Dashboard, title: str, labels: dict[str, str]) -> dict[str, Any]:
    """Return the `Dashboard` object of the API: a header per row, two charts side by side."""
    tiles: list[dict[str, Any]] = []
    top = 0
    for row in dashboard.rows:
        placed, top = _row(row, top)
        tiles += placed
    return {
        "displayName": title,
        "labels": labels,
        "mosaicLayout": {"columns": _COLUMNS, "tiles": tiles},
    }


def _row(row: Row, top: int) -> tuple[list[dict[str, Any]], int]:
    header = {"sectionHeader": {"dividerBelow": True, "subtitle": ""}, "title": row.title}
    tiles: list[dict[str, Any]] = [_tile(header, 0, top, _COLUMNS, _HEADER_HEIGHT)]
    top += _HEADER_HEIGHT
    for at, panel in enumerate(row.panels):
        across = (at % 2) * _WIDTH
        tiles.append(_tile(_chart(panel), across, top + (at // 2) * _HEIGHT, _WIDTH, _HEIGHT))
    return tiles, top + (len(row.panels) + 1) // 2 * _HEIGHT


def _tile(widget: dict[str, Any], x: int, y: int, width: int, height: int) -> dict[str, Any]:
    # the API omits zeros in responses, which would show as a diff in every refresh
    place = {"xPos": x, "yPos": y}
    return {
        **{key: value for key, value in place.items() if value},
        "height": height,
        "widget": widget,
        "width": width,
    }


def _chart(panel: Panel) -> dict[str, Any]:
    sets = [
        {
            "plotType": "LINE",
            "targetAxis": "Y1",
            "timeSeriesQuery": {
                "prometheusQuery": query.expr,
                "unitOverride": panel.unit.ucum,
            },
        }
        for query in panel.queries
    ]
    return {
        "title": panel.title,
        "xyChart": {
            "chartOptions": {"mode": "COLOR"},
            "dataSets": sets,
            "yAxis": {"scale": "LINEAR"},
        },
    }
