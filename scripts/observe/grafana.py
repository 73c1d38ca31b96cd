"""Dashboards as Grafana's JSON model, with Grafana's own builders."""

import json

from grafana_foundation_sdk.builders import common, prometheus, timeseries
from grafana_foundation_sdk.builders import dashboard as grafana
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    GraphGradientMode,
    LegendDisplayMode,
    LegendPlacement,
    TooltipDisplayMode,
)
from grafana_foundation_sdk.models.dashboard import DataSourceRef, DynamicConfigValue

from gke_inference.observability.dashboard_source import Dashboard, Panel

WINDOW = "$__rate_interval"
"""Grafana's own window of rates, four scrapes long."""

_SOURCE = DataSourceRef(type_val="prometheus", uid="${source}")
_LIMIT_STYLE = [
    DynamicConfigValue("custom.lineStyle", {"dash": [8, 6], "fill": "dash"}),
    DynamicConfigValue("custom.fillOpacity", 0),
    DynamicConfigValue("color", {"fixedColor": "red", "mode": "fixed"}),
]


def grafana_dashboard(dashboard: Dashboard, stack: str) -> str:
    """Return a dashboard as JSON that Grafana 11 imports; it asks for a Prometheus data source."""
    made = (
        grafana.Dashboard(f"{stack}: {dashboard.title}")
        .uid(f"gke-inference-{stack}-{dashboard.name}"[:40])
        .description(dashboard.description)
        .tags(["gke-inference", stack])
        .editable()
        .refresh("30s")
        .time("now-1h", "now")
        .timezone("browser")
        .with_variable(grafana.DatasourceVariable("source").label("Prometheus").type("prometheus"))
    )
    for row in dashboard.rows:
        made = made.with_row(grafana.Row(row.title))
        for panel in row.panels:
            made = made.with_panel(_panel(panel))
    return json.dumps(made.build(), cls=JSONEncoder, indent=2, sort_keys=True) + "\n"


def _panel(panel: Panel) -> timeseries.Panel:
    made = (
        timeseries.Panel()
        .title(panel.title)
        .description(panel.description)
        .datasource(_SOURCE)
        .unit(panel.unit.grafana)
        .min(0)
        .span(12)
        .height(8)
        .line_width(2)
        .fill_opacity(8)
        .gradient_mode(GraphGradientMode.OPACITY)
        .legend(
            common.VizLegendOptions()
            .display_mode(LegendDisplayMode.LIST)
            .placement(LegendPlacement.BOTTOM)
            .show_legend(True)
        )
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
    )
    for at, query in enumerate(panel.queries):
        name = chr(ord("A") + at)
        made = made.with_target(
            prometheus.Dataquery()
            .ref_id(name)
            .expr(query.expr)
            .legend_format(query.legend)
            .datasource(_SOURCE)
        )
        if query.is_limit:
            made = made.override_by_query(name, _LIMIT_STYLE)
    return made
