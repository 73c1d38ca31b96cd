"""PromQL queries for metrics API requests, like the queries of Google's metrics adapter.

Pure. The adapter is custom-metrics-stackdriver-adapter in GoogleCloudPlatform/k8s-stackdriver, with
the new resource model: `translator/query_builder.go`, `translator/utils/filter_builder.go`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

_TYPE = re.compile(r"^prometheus\.googleapis\.com\|(?P<name>[^|]+)\|(?P<kind>[^|]+)$")
_OF_PUBSUB = re.compile(r"^pubsub\.googleapis\.com\|subscription\|(?P<name>\w+)$")
_PARTS = ("_bucket", "_count", "_sum")
_RESOURCE = ("subscription_id", "project_id", "location", "cluster", "namespace", "job", "instance")
_REDUCERS = {
    "REDUCE_COUNT": "count({})",
    "REDUCE_MAX": "max({})",
    "REDUCE_MEAN": "avg({})",
    "REDUCE_MIN": "min({})",
    "REDUCE_NONE": "{}",
    "REDUCE_PERCENTILE_05": "quantile(0.05, {})",
    "REDUCE_PERCENTILE_50": "quantile(0.5, {})",
    "REDUCE_PERCENTILE_95": "quantile(0.95, {})",
    "REDUCE_PERCENTILE_99": "quantile(0.99, {})",
    "REDUCE_STDDEV": "stddev({})",
    "REDUCE_SUM": "sum({})",
}


class NotFound(LookupError):
    """Cloud Monitoring has no such metric."""


class BadRequest(ValueError):
    """The adapter rejects the request."""


@dataclass(frozen=True)
class Windows:
    """The adapter's time windows, in seconds of real time."""

    request: float
    """A series without a sample in this window has no value."""
    alignment: float
    """Window for the rate of a counter."""


@dataclass(frozen=True)
class Selection:
    """The meaning of a label selector."""

    matchers: tuple[str, ...] = ()
    """PromQL matchers."""
    reducer: str = "{}"
    """Template for the expression; other than `{}`, it aggregates all series to one."""


def expression(metric: str, matchers: tuple[str, ...], windows: Windows) -> str | None:
    """Return the PromQL of a metric such as `prometheus.googleapis.com|NAME|gauge`.

    A gauge has its newest sample in the request window, a counter its rate (ALIGN_NEXT_OLDER,
    ALIGN_RATE).

    Returns:
        None if Cloud Monitoring has no such metric type.

    Raises:
        BadRequest: distributions are not supported.
    """
    of_pubsub = _OF_PUBSUB.match(metric)
    if of_pubsub is not None:
        named = f"__name__={_quoted('pubsub_googleapis_com:subscription_' + of_pubsub['name'])}"
        window = round(windows.request * 1000)
        return f"last_over_time({{{', '.join((named, *matchers))}}}[{window}ms])"
    match = _TYPE.match(metric)
    if match is None:
        return None
    kind, named = match["kind"], f"__name__={_quoted(match['name'])}"
    selector = f"{{{', '.join((named, *matchers))}}}"
    if kind in ("histogram", "summary"):
        raise BadRequest("distributions are not supported")
    if kind == "counter":
        return f"rate({selector}[{round(windows.alignment * 1000)}ms])"
    if kind in ("gauge", "unknown"):
        return f"last_over_time({selector}[{round(windows.request * 1000)}ms])"
    return None


def type_of(metric: str) -> tuple[str, str] | None:
    """Return name and kind of a metric of Managed Prometheus, or None for another metric."""
    match = _TYPE.match(metric)
    return None if match is None else (match["name"], match["kind"])


def kind_of(name: str, type_by_name: Callable[[str], str | None]) -> str | None:
    """Return the kind of a scraped series in Cloud Monitoring, or None if it is unknown.

    Managed Prometheus stores histograms and summaries whole, so that their parts are no metrics
    (docs.cloud.google.com/stackdriver/docs/managed-prometheus/query).

    Args:
        name: Name of the series.
        type_by_name: Returns the type of a family in Prometheus, or None.
    """
    found = type_by_name(name)
    if found is None and name.endswith("_total"):
        found = type_by_name(name.removesuffix("_total"))  # as OpenMetrics names the family
    family = next((name.removesuffix(part) for part in _PARTS if name.endswith(part)), None)
    if found is None and family is not None and type_by_name(family) in ("histogram", "summary"):
        return "part"
    return "unknown" if found == "untyped" else found


def no_descriptor(metric: str) -> str:
    """Return the adapter's message about a metric without descriptor (translator/errors.go)."""
    name = metric.replace("|", "/")
    return f'the server could not find the descriptor for metric "{name}"'


def is_of_pubsub(metric: str) -> bool:
    """Return whether a metric belongs to Pub/Sub subscriptions."""
    return _OF_PUBSUB.match(metric) is not None


def selection(selector: str, prefixes: tuple[str, ...]) -> Selection:
    """Return the meaning of a label selector.

    Args:
        selector: label selector in Kubernetes format.
        prefixes: allowed label prefixes, such as `metric.labels`.

    Raises:
        BadRequest: Cloud Monitoring cannot filter by the selector.
    """
    matchers: list[str] = []
    reducer = "{}"
    for key, operator, values in parse_selector(selector):
        if key == "reducer":
            if operator != "in" or len(values) != 1 or values[0] not in _REDUCERS:
                raise BadRequest(f"Specified reducer is not supported: {', '.join(values)}")
            reducer = _REDUCERS[values[0]]
            continue
        if key == "resource.type" and "resource.labels" in prefixes:
            continue  # the name of the metric says it already
        prefix, _, label = key.rpartition(".")
        if prefix not in prefixes:
            raise BadRequest(f"Metric label: {key!r} is not allowed")
        if (label in _RESOURCE) != (prefix == "resource.labels"):
            matchers.append('__name__=""')  # no series has such a label: nothing is selected
            continue
        matchers.append(_matcher(label, operator, values))
    return Selection(tuple(matchers), reducer)


def _matcher(label: str, operator: str, values: tuple[str, ...]) -> str:
    if operator == "absent":
        raise BadRequest("Label selector with operator DoesNotExist is not allowed")
    if operator == "exists":
        return f'{label}!=""'
    if len(values) == 1:
        return f"{label}{'=' if operator == 'in' else '!='}{_quoted(values[0])}"
    escaped = "|".join(re.escape(value) for value in values)
    return f"{label}{'=~' if operator == 'in' else '!~'}{_quoted(escaped)}"


def names_matcher(label: str, names: list[str]) -> str:
    """Return the matcher for any of some names."""
    return _matcher(label, "in", tuple(sorted(names)))


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def parse_selector(text: str) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return a label selector's requirements as (key, `in`/`notin`/`exists`/`absent`, values).

    Raises:
        BadRequest: the horizontal pod autoscaler does not send this form.
    """
    found: list[tuple[str, str, tuple[str, ...]]] = []
    for piece in re.findall(r"(?:[^,(]|\([^)]*\))+", text):
        item = piece.strip()
        listed = re.match(r"^(\S+)\s+(in|notin)\s+\(([^)]*)\)$", item)
        compared = re.match(r"^([^=!\s]+)\s*(==|!=|=)\s*(\S*)$", item)
        if listed:
            values = tuple(value.strip() for value in listed[3].split(","))
            found.append((listed[1], listed[2], values))
        elif compared:
            found.append((compared[1], "notin" if compared[2] == "!=" else "in", (compared[3],)))
        elif re.match(r"^!?\S+$", item):
            found.append((item.lstrip("!"), "absent" if item.startswith("!") else "exists", ()))
        else:
            raise BadRequest(f"selector not understood: {item!r}")
    return found


def labels_of(series: dict[str, str]) -> dict[str, str]:
    """Return a series' labels with the adapter's names: `metric.labels.X`, `resource.labels.Y`."""
    named = {
        f"{'resource' if key in _RESOURCE else 'metric'}.labels.{key}": value
        for key, value in series.items()
        if key != "__name__"
    }
    kind = "pubsub_subscription" if "subscription_id" in series else "prometheus_target"
    return {**named, "resource.type": kind}


def milli(value: float) -> str:
    """Return a value as a quantity, truncated to a thousandth like the adapter's."""
    thousandths = int(value * 1000)
    return f"{thousandths}m" if thousandths % 1000 else str(thousandths // 1000)
