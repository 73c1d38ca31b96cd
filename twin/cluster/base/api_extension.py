"""Serves an API group to the API server's aggregation layer, as metrics adapters do."""

import json
import logging
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from twin.cluster.base.context import ClusterContext
from twin.wire.http_answers import Answers
from twin.wire.kube import JsonObject, KubeError

_LOG = logging.getLogger(__name__)
_NAMESPACE = "gke-managed-system"
_APISERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
_REGISTER_SECONDS = 2.0
_MANAGER = "pulumi-kubernetes"  # so that a program's own registration meets no other owner
_VERSION_PARTS = 3  # apis, group, version
Answer = Callable[[str, dict[str, str]], JsonObject | None]
"""Called with path and query; None means no such thing. May raise ValueError."""


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


def other_version(discovery: dict[str, JsonObject], path: str) -> JsonObject | None:
    """Return an empty resource list for a version of the group that is registered, not served."""
    parts = path.strip("/").split("/")
    if len(parts) != _VERSION_PARTS or f"/apis/{parts[1]}" not in discovery:
        return None
    group_version = "/".join(parts[1:])
    kind = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version}
    return {**kind, "resources": []}


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
        port = int(server.server_address[1])
        while not stop.wait(_REGISTER_SECONDS):
            self._register(port)
        server.shutdown()
        server.server_close()

    def _register(self, port: int) -> None:
        """See to it that the API server asks this server, whatever adapter is installed.

        An adapter that a program installs is a pod nobody runs here, behind a Service address that
        nothing routes: its registrations are pointed to the twin (rule `metrics.adapter`).
        """
        name = self._api.group.split(".", 1)[0] + "-metrics"
        target = {"name": name, "namespace": _NAMESPACE, "port": port}
        kube = self._ctx.kube
        try:
            registered = {item["metadata"]["name"]: item for item in kube.list(_APISERVICES)}
            mine = f"{self._api.version}.{self._api.group}"
            for found, item in registered.items():
                spec: JsonObject = item["spec"]
                if spec.get("group") == self._api.group and spec.get("service") != target:
                    self._point(found, item, target)
            if mine not in registered:
                self._create(mine, target)
        except KubeError as error:
            _LOG.warning("%s: %s", self._api.group, error)

    def _point(self, registration: str, item: JsonObject, target: JsonObject) -> None:
        spec = {key: value for key, value in item["spec"].items() if key != "caBundle"}
        kept = ("labels", "annotations")
        metadata = {key: item["metadata"][key] for key in kept if key in item["metadata"]}
        changed = {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": registration, **metadata},
            "spec": {**spec, "service": target, "insecureSkipTLSVerify": True},
        }
        self._ctx.kube.apply(changed, manager=_MANAGER)

    def _create(self, registration: str, target: JsonObject) -> None:
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": target["name"], "namespace": _NAMESPACE},
            "spec": {"type": "ExternalName", "externalName": "127.0.0.1"},
        }
        self._ctx.kube.apply(service, manager="gke")
        api_service = {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": registration},
            "spec": {
                "group": self._api.group,
                "version": self._api.version,
                "insecureSkipTLSVerify": True,  # the certificate names 127.0.0.1, not the Service
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "service": target,
            },
        }
        self._ctx.kube.apply(api_service, manager=_MANAGER)


class _Server(ThreadingHTTPServer):
    discovery: dict[str, JsonObject]
    answer: Answer


class _Handler(Answers):
    def do_GET(self) -> None:
        server = self.server
        if not isinstance(server, _Server):
            raise TypeError("served by another kind of server")
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        try:
            found = (
                server.discovery.get(url.path)
                or other_version(server.discovery, url.path)
                or server.answer(url.path, query)
            )
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
        self.reply(code, "application/json", json.dumps(body).encode())
