"""custom.metrics.k8s.io and external.metrics.k8s.io, served from the cluster's Prometheus.

Google's adapter does the same with Cloud Monitoring; `query.py` has its queries. The autoscaler
sees a sample when it would have reached Cloud Monitoring (rule `metrics.ingestion`), and a series
that no pod has reported for a while has no value (rule `metrics.window`).
"""

import math
import re
import threading
import time
from collections.abc import Callable
from urllib.parse import unquote

from twin.cluster.base.api_extension import ApiExtension, ApiGroup
from twin.cluster.base.context import ClusterContext
from twin.cluster.base.reports import timestamp
from twin.cluster.metrics_api.query import (
    BadRequest,
    NotFound,
    Windows,
    expression,
    is_of_pubsub,
    kind_of,
    labels_of,
    milli,
    names_matcher,
    no_descriptor,
    selection,
    type_of,
)
from twin.cluster.monitoring import promql
from twin.cluster.monitoring.server import address_of
from twin.wire.kube import JsonObject, KubeError

_CUSTOM = ApiGroup("custom.metrics.k8s.io", "v1beta2", "pods/*", "MetricValueList")
_EXTERNAL = ApiGroup(
    "external.metrics.k8s.io", "v1beta1", "externalmetrics", "ExternalMetricValueList"
)
_CUSTOM_PATH = re.compile(
    rf"^/apis/{_CUSTOM.group_version}/namespaces/(?P<ns>[^/]+)/pods/(?P<pod>[^/]+)/(?P<metric>[^/]+)$"
)
_EXTERNAL_PATH = re.compile(
    rf"^/apis/{_EXTERNAL.group_version}/namespaces/(?P<ns>[^/]+)/(?P<metric>[^/]+)$"
)
_SCRAPES = 4  # a rate needs two samples, and one may come late
_FILTER_MOST = 100  # pods Cloud Monitoring's one_of() takes; for more the adapter filters no pods
_EXTERNAL_PREFIXES = ("metric.labels", "resource.labels")


class Reader:
    """A reader of the newest values that the adapter would see."""

    def __init__(self, ctx: ClusterContext) -> None:
        rules = ctx.rules
        shortest = float(rules.value("monitoring.interval.shortest"))
        self._ctx = ctx
        self._described: set[str] = set()
        """Metrics that were found; a descriptor outlives its series."""
        self._delay = rules.scaled("metrics.ingestion")
        self._delay_of_pubsub = rules.scaled("metrics.pubsub")
        self._windows = Windows(
            request=max(rules.scaled("metrics.window"), _SCRAPES * shortest),
            alignment=max(rules.scaled("metrics.alignment"), _SCRAPES * shortest),
        )

    def check(self, metric: str) -> None:
        """Check that Cloud Monitoring has a metric of Managed Prometheus.

        Metrics of other services pass, and all of them while Prometheus does not answer.

        Raises:
            NotFound: It has none of this name and kind.
        """
        address = address_of(self._ctx.dir)
        is_of_others = type_of(metric) is None and "|" in metric
        if metric in self._described or is_of_others:
            return
        try:
            if address is None or self._is_described(address, metric):
                return
        except promql.QueryError:
            return
        raise NotFound(no_descriptor(metric))

    def samples(self, metric: str, matchers: tuple[str, ...], reducer: str) -> list[promql.Sample]:
        """Return the series of a metric; empty while Prometheus does not answer.

        Raises:
            BadRequest: the adapter rejects the metric.
        """
        asked = expression(metric, matchers, self._windows)
        address = address_of(self._ctx.dir)
        if asked is None or address is None:
            return []
        try:
            delay = self._delay_of_pubsub if is_of_pubsub(metric) else self._delay
            found = promql.query(address, reducer.format(asked), time.time() - delay)
        except promql.QueryError:
            return []
        return [sample for sample in found if math.isfinite(sample.value)]

    def _is_described(self, address: str, metric: str) -> bool:
        """Return whether a metric of Managed Prometheus exists with the kind of its name."""
        name, kind = type_of(metric) or ("", "")
        found = kind_of(name, lambda each: promql.metric_type(address, each))
        if found is None and name and promql.has_series(address, name):
            # recorded, or of a program that has ended
            found = "counter" if name.endswith("_total") else "gauge"
        if found != kind:
            return False
        self._described.add(metric)
        return True


class _Api:
    """One API group of one cluster, served until it is stopped."""

    def __init__(
        self, ctx: ClusterContext, group: ApiGroup, answer: Callable[..., JsonObject | None]
    ) -> None:
        self._server = ApiExtension(ctx, group, answer)

    def run(self, stop: threading.Event) -> None:
        """Serve until `stop` is set."""
        self._server.run(stop)


class CustomMetrics(_Api):
    """Values of pods: the API of an autoscaler's metrics of type `Pods`."""

    def __init__(self, ctx: ClusterContext) -> None:
        super().__init__(ctx, _CUSTOM, self._answer)
        self._kube = ctx.kube
        self._reader = Reader(ctx)

    def _answer(self, path: str, query: dict[str, str]) -> JsonObject | None:
        match = _CUSTOM_PATH.match(path)
        if match is None:
            return None
        metric, namespace = unquote(match["metric"]), match["ns"]
        self._reader.check(metric)
        wanted = selection(query.get("metricLabelSelector", ""), ("metric.labels",))
        names = self._pods(namespace, unquote(match["pod"]), query.get("labelSelector"))
        values: dict[str, float] = {}
        if names:
            matchers = (names_matcher("namespace", [namespace]),)
            if len(names) <= _FILTER_MOST:
                matchers += (names_matcher("pod", names),)
            for sample in self._reader.samples(metric, matchers + wanted.matchers, wanted.reducer):
                pod = sample.labels.get("pod", "")
                values[pod] = values.get(pod, 0.0) + sample.value
        return _custom_list(namespace, metric, {n: values[n] for n in names if n in values})

    def _pods(self, namespace: str, name: str, selector: str | None) -> list[str]:
        if name != "*":
            return [name]
        try:
            found = self._kube.list(f"/api/v1/namespaces/{namespace}/pods", selector or None)
        except KubeError:
            return []
        return sorted(pod["metadata"]["name"] for pod in found)


class ExternalMetrics(_Api):
    """Values of any series: the API of an autoscaler's metrics of type `External`."""

    def __init__(self, ctx: ClusterContext) -> None:
        super().__init__(ctx, _EXTERNAL, self._answer)
        self._reader = Reader(ctx)

    def _answer(self, path: str, query: dict[str, str]) -> JsonObject | None:
        match = _EXTERNAL_PATH.match(path)
        if match is None:
            return None
        metric = unquote(match["metric"])
        self._reader.check(metric)
        wanted = selection(query.get("labelSelector", ""), _EXTERNAL_PREFIXES)
        found = self._reader.samples(metric, wanted.matchers, wanted.reducer)
        return _external_list(metric, found)


def _custom_list(namespace: str, metric: str, values: dict[str, float]) -> JsonObject:
    now = timestamp()
    described = {"kind": "Pod", "namespace": namespace, "apiVersion": "/v1"}
    items = [
        {
            "describedObject": {**described, "name": pod},
            "metric": {"name": metric},
            "timestamp": now,
            "value": milli(value),
        }
        for pod, value in values.items()
    ]
    return _list(_CUSTOM, items)


def _external_list(metric: str, found: list[promql.Sample]) -> JsonObject:
    items = [
        {
            "metricName": metric,
            "metricLabels": labels_of(sample.labels),
            "timestamp": timestamp(sample.time),
            "value": milli(sample.value),
        }
        for sample in found
    ]
    return _list(_EXTERNAL, items)


def _list(group: ApiGroup, items: list[JsonObject]) -> JsonObject:
    return {
        "kind": group.kind,
        "apiVersion": group.group_version,
        "metadata": {},
        "items": items,
    }


__all__ = ["BadRequest", "CustomMetrics", "ExternalMetrics"]
