"""The inventory of series: which ones a stack reads, and what reads each of them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from gke_inference.observability.alert_source import alerts
from gke_inference.observability.dashboard_source import dashboards
from gke_inference.observability.promql import Dialect
from infra.deploy.observability import scope
from infra.plan import Plan
from scripts.canary.measuring import versions_of

_TEXT = re.compile(r'"[^"]*"')
_RANGE = re.compile(r"\[[^\]]*\]")
_GROUPING = re.compile(
    r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^()]*\)", re.IGNORECASE
)
_SELECTOR = re.compile(r"(?<![\w:.])([a-zA-Z_:][\w:]*)(?![\w:])(?!\s*\()\s*(?:\{([^{}]*)\})?")
_MATCHER = re.compile(r"([a-zA-Z_]\w*)\s*(?:=~|!~|!=|=)")
_WORDS = {
    *("and", "or", "unless", "bool", "offset", "atan2", "by", "without", "on", "ignoring"),
    *("group_left", "group_right", "inf", "nan"),
}
_ADAPTED = re.compile(r"^([a-z.]+)\.googleapis\.com\|(.+)$")
"""Names of the Custom Metrics Adapter: a metric's type with `|` in place of `/`."""
_LABEL = "metric.labels."
"""Prefix of a label of a series in the selector of an autoscaler's metric."""


@dataclass(frozen=True, order=True)
class Read:
    """Series that one part of a stack asks for."""

    name: str
    place: str
    """What reads it, such as `alert RequestsFailing`."""
    labels: tuple[str, ...] = ()
    """Names of the labels that it asks for, sorted."""


def selectors_in(expression: str) -> frozenset[tuple[str, tuple[str, ...]]]:
    """Return the series that a PromQL expression reads: name, and labels that it asks for."""
    code = _GROUPING.sub(" ", _RANGE.sub(" ", _TEXT.sub('""', expression)))
    return frozenset(
        (name, tuple(sorted(set(_MATCHER.findall(matchers)))))
        for name, matchers in _SELECTOR.findall(code)
        if name.lower() not in _WORDS
    )


def names_in(expression: str) -> frozenset[str]:
    """Return the names of the series that a PromQL expression reads."""
    return frozenset(name for name, _ in selectors_in(expression))


def reads_of(plan: Plan, objects: Iterable[Mapping[str, Any]]) -> list[Read]:
    """Return what reads which series of a stack.

    Args:
        plan: The stack.
        objects: Its Kubernetes objects. Autoscalers and recording rules read series.
    """
    return sorted({*_of_monitoring(plan), *_of_canaries(plan), *_of(objects)})


def _reads(place: str, expression: str) -> Iterator[Read]:
    for name, labels in selectors_in(expression):
        yield Read(name, place, labels)


def _of_monitoring(plan: Plan) -> Iterator[Read]:
    settings = plan.platform.monitoring
    seen = scope(plan)
    if settings.alerts:
        for alert in alerts(seen, Dialect.MANAGED):
            yield from _reads(f"alert {alert.name}", alert.expr)
    if settings.dashboards:
        for page in dashboards(seen):
            for panel in page.panels:
                for query in panel.queries:
                    yield from _reads(f"panel {page.title} / {panel.title}", query.expr)


def _of_canaries(plan: Plan) -> Iterator[Read]:
    for model, settings in plan.platform.models.items():
        if settings.canary is None:
            continue
        for version in versions_of(plan, model, is_twin=False):
            for expression in version.expressions("", "").values():
                yield from _reads(f"canary of {model}", expression)


def _of(objects: Iterable[Mapping[str, Any]]) -> Iterator[Read]:
    for each in objects:
        kind, name = each.get("kind"), each.get("metadata", {}).get("name")
        if kind == "HorizontalPodAutoscaler":
            for metric in each["spec"].get("metrics", []):
                source = cast("Mapping[str, Any]", metric.get(str(metric["type"]).lower(), {}))
                yield from _adapted(f"autoscaler {name}", source.get("metric", {}))
        if kind in ("Rules", "ClusterRules", "GlobalRules"):
            for group in each["spec"]["groups"]:
                for rule in group["rules"]:
                    yield from _reads(f"rules {name}", rule["expr"])


def _adapted(place: str, metric: Mapping[str, Any]) -> Iterator[Read]:
    """Yield the series of a metric of the Custom Metrics Adapter, by its name in PromQL."""
    found = _ADAPTED.match(str(metric.get("name", "")))
    if found is None:
        return
    service, path = found.groups()
    asked: dict[str, str] = metric.get("selector", {}).get("matchLabels", {})
    labels = sorted(each.removeprefix(_LABEL) for each in asked if each.startswith(_LABEL))
    if service == "prometheus":
        yield Read(path.rpartition("|")[0], place, tuple(labels))
    else:
        name = f"{service.replace('.', '_')}_googleapis_com:{path.replace('|', '_')}"
        yield Read(name, place, tuple(labels))
