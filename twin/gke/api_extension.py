"""Serves an API group to the API server's aggregation layer, as metrics adapters do."""

import json
import logging
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from twin.gke.context import ClusterContext
from twin.kube import JsonObject, KubeError

_LOG = logging.getLogger(__name__)
_NAMESPACE = "gke-managed-system"
Answer = Callable[[str, str], JsonObject | None]
"""Called with (path, label selector); None means no such thing. May raise ValueError."""


@dataclass(frozen=True)
class ApiGroup:
    """A version of an API group and its one resource."""

    group: str
    version: str
    resource: str
    kind: str

    @property
    def group_version(self) -> str:
        """Group and version, as in `apiVersion`."""
        return f"{self.group}/{self.version}"

    def discovery(self) -> dict[str, JsonObject]:
        """Return the discovery documents by path."""
        version: JsonObject = {"groupVersion": self.group_version, "version": self.version}
        group: JsonObject = {
            "kind": "APIGroup",
            "apiVersion": "v1",
            "name": self.group,
            "versions": [version],
            "preferredVersion": version,
        }
        resource: JsonObject = {
            "name": self.resource,
            "singularName": "",
            "namespaced": True,
            "kind": self.kind,
            "verbs": ["get"],
        }
        listing: JsonObject = {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": self.group_version,
            "resources": [resource],
        }
        return {
            "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]},
            f"/apis/{self.group}": group,
            f"/apis/{self.group_version}": listing,
        }


class ApiExtension:
    """An HTTPS server on loopback, registered with the API server as an APIService."""

    def __init__(self, ctx: ClusterContext, api: ApiGroup, answer: Answer) -> None:
        self._ctx = ctx
        self._api = api
        self._answer = answer

    def run(self, stop: threading.Event) -> None:
        """Serve until `stop` is set."""
        server = _Server(("127.0.0.1", 0), _Handler)
        server.daemon_threads = True
        server.discovery, server.answer = self._api.discovery(), self._answer
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        pki = self._ctx.paths.pki
        context.load_cert_chain(pki / "local.crt", pki / "local.key")
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
        name = f"serve-{self._api.group}"
        threading.Thread(target=server.serve_forever, daemon=True, name=name).start()
        registered = False
        while not stop.wait(5.0 if registered else 1.0):
            if not registered:
                registered = self._register(int(server.server_address[1]))
        server.shutdown()
        server.server_close()

    def _register(self, port: int) -> bool:
        name = self._api.group.split(".", 1)[0] + "-metrics"
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "namespace": _NAMESPACE},
            "spec": {"type": "ExternalName", "externalName": "127.0.0.1"},
        }
        registration = {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"{self._api.version}.{self._api.group}"},
            "spec": {
                "group": self._api.group,
                "version": self._api.version,
                "insecureSkipTLSVerify": True,  # the certificate names 127.0.0.1, not the Service
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "service": {"name": name, "namespace": _NAMESPACE, "port": port},
            },
        }
        try:
            self._ctx.kube.apply(service, manager="gke")
            self._ctx.kube.apply(registration, manager="gke")
        except KubeError as error:
            _LOG.warning("%s: %s", self._api.group, error)
            return False
        return True


class _Server(ThreadingHTTPServer):
    discovery: dict[str, JsonObject]
    answer: Answer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        _LOG.debug(format, *args)

    def do_GET(self) -> None:
        server = self.server
        if not isinstance(server, _Server):
            raise TypeError("served by another kind of server")
        url = urlsplit(self.path)
        selector = parse_qs(url.query).get("labelSelector", [""])[0]
        try:
            found = server.discovery.get(url.path) or server.answer(url.path, selector)
        except ValueError as error:
            self._refuse(400, "BadRequest", str(error))
            return
        if found is None:
            self._refuse(404, "NotFound", f"no {url.path}")
            return
        self._reply(200, found)

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
