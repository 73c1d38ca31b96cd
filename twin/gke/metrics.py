"""external.metrics.k8s.io: recorded series of `Rules` objects, for the horizontal autoscaler.

On GKE the series go through Managed Prometheus and Cloud Monitoring; the twin evaluates them when
it is asked (`metrics_series.py` says which expressions it knows). A metric is asked for as
`prometheus.googleapis.com|NAME|gauge` with a selector on `metric.labels.X`.
"""

import re
import threading
from urllib.parse import unquote

from twin.gke.api_extension import ApiExtension, ApiGroup
from twin.gke.context import ClusterContext
from twin.gke.informer import Informer
from twin.gke.metrics_series import evaluate, selected, series_of
from twin.gke.reports import timestamp
from twin.kube import JsonObject

_API = ApiGroup("external.metrics.k8s.io", "v1beta1", "externalmetrics", "ExternalMetricValueList")
_MONITORING = "/apis/monitoring.googleapis.com/v1"
_NAME = re.compile(r"^prometheus\.googleapis\.com\|(?P<name>[^|]+)\|gauge$")
_PATH = re.compile(rf"^/apis/{_API.group_version}/namespaces/(?P<ns>[^/]+)/(?P<metric>[^/]+)$")


class ExternalMetrics:
    """Serves the metrics of one cluster and registers itself with its API server."""

    def __init__(self, ctx: ClusterContext) -> None:
        wake = threading.Event()
        kinds = ("rules", "clusterrules", "globalrules")
        self._rules = [Informer(ctx.kube, f"{_MONITORING}/{kind}", wake) for kind in kinds]
        self._pods = Informer(ctx.kube, "/api/v1/pods", wake)
        self._server = ApiExtension(ctx, _API, self._answer)

    def run(self, stop: threading.Event) -> None:
        """Serve until `stop` is set."""
        for informer in (*self._rules, self._pods):
            informer.start(stop)
        self._server.run(stop)

    def values(self, metric: str, selector: str) -> list[tuple[dict[str, str], int]]:
        """Return (labels, value) of the series of a metric that a selector means.

        Raises:
            ValueError: the selector is not understood.
        """
        match = _NAME.match(metric)
        if match is None:
            return []
        pods = self._pods.items()
        found: list[tuple[dict[str, str], int]] = []
        for informer in self._rules:
            for item in informer.items():
                for series in series_of(item):
                    if series.name != match["name"] or not selected(series.labels, selector):
                        continue
                    value = evaluate(series, pods)
                    if value is not None:
                        found.append((series.labels, value))
        return found

    def _answer(self, path: str, selector: str) -> JsonObject | None:
        match = _PATH.match(path)
        if match is None:
            return None
        metric = unquote(match["metric"])
        return _value_list(metric, self.values(metric, selector))


def _value_list(metric: str, found: list[tuple[dict[str, str], int]]) -> JsonObject:
    now = timestamp()
    items = [
        {
            "metricName": metric,
            "metricLabels": {f"metric.labels.{key}": value for key, value in labels.items()},
            "timestamp": now,
            "value": str(value),
        }
        for labels, value in found
    ]
    kind = "ExternalMetricValueList"
    return {"kind": kind, "apiVersion": _API.group_version, "metadata": {}, "items": items}
