"""external.metrics.k8s.io: recorded series of `Rules` objects, for the horizontal autoscaler.

On GKE the series go through Managed Prometheus and Cloud Monitoring; the twin evaluates them when
it is asked (`metrics_series.py` says which expressions it knows). A metric is asked for as
`prometheus.googleapis.com|NAME|gauge` with a selector on `metric.labels.X`.
"""

import json
import logging
import re
import ssl
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from twin.gke.context import ClusterContext
from twin.gke.informer import Informer
from twin.gke.metrics_series import evaluate, selected, series_of
from twin.kube import JsonObject, KubeError

_LOG = logging.getLogger(__name__)
_GROUP = "external.metrics.k8s.io"
_VERSION = "v1beta1"
_GROUP_VERSION = f"{_GROUP}/{_VERSION}"
_MONITORING = "/apis/monitoring.googleapis.com/v1"
_NAME = re.compile(r"^prometheus\.googleapis\.com\|(?P<name>[^|]+)\|gauge$")
_PATH = re.compile(rf"^/apis/{_GROUP_VERSION}/namespaces/(?P<ns>[^/]+)/(?P<metric>[^/]+)$")
_SERVICE_NAMESPACE = "gke-managed-system"
_GROUP_VERSION_OBJECT: JsonObject = {"groupVersion": _GROUP_VERSION, "version": _VERSION}
_GROUP_OBJECT: JsonObject = {
    "kind": "APIGroup",
    "apiVersion": "v1",
    "name": _GROUP,
    "versions": [_GROUP_VERSION_OBJECT],
    "preferredVersion": _GROUP_VERSION_OBJECT,
}
_DISCOVERY: dict[str, JsonObject] = {
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_GROUP_OBJECT]},
    f"/apis/{_GROUP}": _GROUP_OBJECT,
    f"/apis/{_GROUP_VERSION}": {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": _GROUP_VERSION,
        "resources": [
            {
                "name": "externalmetrics",
                "singularName": "",
                "namespaced": True,
                "kind": "ExternalMetricValueList",
                "verbs": ["get"],
            }
        ],
    },
}


class ExternalMetrics:
    """Serves the metrics of one cluster and registers itself with its API server."""

    def __init__(self, ctx: ClusterContext) -> None:
        self._ctx = ctx
        wake = threading.Event()
        kinds = ("rules", "clusterrules", "globalrules")
        self._rules = [Informer(ctx.kube, f"{_MONITORING}/{kind}", wake) for kind in kinds]
        self._pods = Informer(ctx.kube, "/api/v1/pods", wake)

    def run(self, stop: threading.Event) -> None:
        """Serve until `stop` is set."""
        for informer in (*self._rules, self._pods):
            informer.start(stop)
        server = _Server(("127.0.0.1", 0), _Handler)
        server.daemon_threads = True
        server.metrics = self
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        pki = self._ctx.paths.pki
        context.load_cert_chain(pki / "local.crt", pki / "local.key")
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
        thread = threading.Thread(target=server.serve_forever, daemon=True, name="metrics-server")
        thread.start()
        registered = False
        while not stop.wait(1.0 if not registered else 5.0):
            if not registered:
                registered = self._register(int(server.server_address[1]))
        server.shutdown()
        server.server_close()

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

    def _register(self, port: int) -> bool:
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "external-metrics", "namespace": _SERVICE_NAMESPACE},
            "spec": {"type": "ExternalName", "externalName": "127.0.0.1"},
        }
        registration = {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"{_VERSION}.{_GROUP}"},
            "spec": {
                "group": _GROUP,
                "version": _VERSION,
                "insecureSkipTLSVerify": True,  # the certificate names 127.0.0.1, not the Service
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "service": {
                    "name": "external-metrics",
                    "namespace": _SERVICE_NAMESPACE,
                    "port": port,
                },
            },
        }
        try:
            self._ctx.kube.apply(service, manager="gke")
            self._ctx.kube.apply(registration, manager="gke")
        except KubeError as error:
            _LOG.warning("external metrics: %s", error)
            return False
        return True


class _Server(ThreadingHTTPServer):
    metrics: ExternalMetrics


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        _LOG.debug(format, *args)

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path in _DISCOVERY:
            self._reply(200, _DISCOVERY[url.path])
            return
        match = _PATH.match(url.path)
        if match is None:
            self._refuse(404, "NotFound", f"no {url.path}")
            return
        metric = unquote(match["metric"])
        selector = parse_qs(url.query).get("labelSelector", [""])[0]
        server = self.server
        if not isinstance(server, _Server):
            raise TypeError("served by another kind of server")
        try:
            found = server.metrics.values(metric, selector)
        except ValueError as error:
            self._refuse(400, "BadRequest", str(error))
            return
        self._reply(200, _value_list(metric, found))

    def _refuse(self, code: int, reason: str, message: str) -> None:
        body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
        self._reply(code, {**body, "reason": reason, "message": message})

    def _reply(self, code: int, body: JsonObject) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _value_list(metric: str, found: list[tuple[dict[str, str], int]]) -> JsonObject:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
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
    return {"kind": kind, "apiVersion": _GROUP_VERSION, "metadata": {}, "items": items}
