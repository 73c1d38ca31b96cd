"""The inventory of series: which ones a stack reads, and what reads each of them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from gke_inference.observability.alert_source import alerts
from gke_inference.observability.dashboard_source import dashboards
from gke_inference.observability.promql import Dialect
from infra.arguments.observability import scope
from infra.plan import Plan
from scripts.canary.measuring import versions_of

_NOT_CODE = re.compile(r'"[^"]*"|\{[^{}]*\}|\[[^\]]*\]')
_GROUPING = re.compile(
    r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^()]*\)", re.IGNORECASE
)
_NAME = re.compile(r"(?<![\w:.])([a-zA-Z_:][\w:]*)(?!\s*\(|[\w:])")
_WORDS = {
    *("and", "or", "unless", "bool", "offset", "atan2", "by", "without", "on", "ignoring"),
    *("group_left", "group_right", "inf", "nan"),
}
_ADAPTED = re.compile(r"^([a-z.]+)\.googleapis\.com\|(.+)$")
"""Names of the Custom Metrics Adapter: a metric's type with `|` in place of `/`."""


def names_in(expression: str) -> frozenset[str]:
    """Return the names of the series that a PromQL expression reads."""
    code = expression
    while (shorter := _NOT_CODE.sub(" ", code)) != code:
        code = shorter
    found = _NAME.findall(_GROUPING.sub(" ", code))
    return frozenset(name for name in found if name.lower() not in _WORDS)


def series_read(plan: Plan, objects: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return what reads each series that a stack needs, by the series' name.

    Args:
        plan: The stack.
        objects: Its Kubernetes objects. Autoscalers and recording rules read series.
    """
    found: dict[str, list[str]] = {}
    for place, name in sorted({*_of_monitoring(plan), *_of_canaries(plan), *_of(objects)}):
        found.setdefault(name, []).append(place)
    return found


def _of_monitoring(plan: Plan) -> Iterator[tuple[str, str]]:
    settings = plan.platform.monitoring
    seen = scope(plan)
    if settings.alerts:
        for alert in alerts(seen, Dialect.MANAGED):
            yield from ((f"alert {alert.name}", name) for name in names_in(alert.expr))
    if settings.dashboards:
        for page in dashboards(seen):
            for panel in page.panels:
                place = f"panel {page.title} / {panel.title}"
                for query in panel.queries:
                    yield from ((place, name) for name in names_in(query.expr))


def _of_canaries(plan: Plan) -> Iterator[tuple[str, str]]:
    for model, settings in plan.platform.models.items():
        if settings.canary is None:
            continue
        for version in versions_of(plan, model, is_twin=False):
            for expression in version.expressions("", "").values():
                yield from ((f"canary of {model}", name) for name in names_in(expression))


def _of(objects: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for each in objects:
        kind, name = each.get("kind"), each.get("metadata", {}).get("name")
        if kind == "HorizontalPodAutoscaler":
            for metric in each["spec"].get("metrics", []):
                source = cast("Mapping[str, Any]", metric.get(str(metric["type"]).lower(), {}))
                yield from (
                    (f"autoscaler {name}", found)
                    for found in _adapted(str(source.get("metric", {}).get("name", "")))
                )
        if kind in ("Rules", "ClusterRules", "GlobalRules"):
            for group in each["spec"]["groups"]:
                for rule in group["rules"]:
                    yield from ((f"rules {name}", found) for found in names_in(rule["expr"]))


def _adapted(metric: str) -> Iterator[str]:
    """Yield the PromQL name of a metric of the Custom Metrics Adapter."""
    found = _ADAPTED.match(metric)
    if found is None:
        return
    service, path = found.groups()
    if service == "prometheus":
        yield path.rpartition("|")[0]
    else:
        yield f"{service.replace('.', '_')}_googleapis_com:{path.replace('|', '_')}"
