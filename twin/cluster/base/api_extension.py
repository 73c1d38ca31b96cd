"""API groups served through the API server's aggregation layer, like those of metrics adapters.

If a program installs its own adapter, its registrations remain unchanged, and `konnectivity`
directs connections for its Service to this server (rule `metrics.adapter`).
"""

import json
import logging
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs, urlsplit

from twin.cluster.base.context import ClusterContext
from twin.cluster.base.fields import part
from twin.cluster.base.informer import Informer
from twin.host.own_callers import OwnHttpServer
from twin.wire.http_answers import Answers
from twin.wire.kube import JsonObject, KubeError

_LOG = logging.getLogger(__name__)
_NAMESPACE = "gke-managed-system"
APISERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
_REGISTER_SECONDS = 2.0
_MANAGER = "gke"
_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings"
_ADAPTER_ROLE = "extension-apiserver-authentication-reader"
"""Role that every server behind the aggregation layer needs before it is registered."""
_VERSION_PARTS = 3  # apis, group, version
Answer = Callable[[str, dict[str, str]], JsonObject | None]
"""Called with path and query; returns None for an unknown resource. Can raise ValueError and
LookupError, whose message is the reason of a 400 and a 404."""


@dataclass(frozen=True)
class ApiResource:
    """A resource as discovery lists it."""

    name: str
    kind: str
    verbs: tuple[str, ...] = ("get",)
    is_namespaced: bool = True

    def entry(self) -> JsonObject:
        """Return the entry of an `APIResourceList`."""
        return {
            "name": self.name,
            "singularName": "",
            "namespaced": self.is_namespaced,
            "kind": self.kind,
            "verbs": list(self.verbs),
        }


@dataclass(frozen=True)
class ApiGroup:
    """A version of an API group and its resources."""

    group: str
    version: str
    resource: str
    kind: str
    resources: tuple[ApiResource, ...] = ()
    """Resources in place of the one above, which can only be read."""
    is_adapter: bool = True
    """Whether a program may install a server of its own for the group."""

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
        resources = self.resources or (ApiResource(self.resource, self.kind),)
        listing: JsonObject = {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": self.group_version,
            "resources": [resource.entry() for resource in resources],
        }
        return {
            "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]},
            f"/apis/{self.group}": group,
            f"/apis/{self.group_version}": listing,
        }


def other_version(discovery: dict[str, JsonObject], path: str) -> JsonObject | None:
    """Return an empty resource list for a version that is registered but not served."""
    parts = path.strip("/").split("/")
    if len(parts) != _VERSION_PARTS or f"/apis/{parts[1]}" not in discovery:
        return None
    group_version = "/".join(parts[1:])
    kind = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version}
    return {**kind, "resources": []}


def note_port(folder: Path, group: str, port: int) -> None:
    """Record where a group is served, for `port_behind`."""
    file = folder / "extensions" / group
    file.parent.mkdir(exist_ok=True)
    partial = file.with_suffix(".tmp")
    partial.write_text(str(port))
    partial.replace(file)


def port_behind(folder: Path, service: JsonObject, registered: list[JsonObject]) -> int | None:
    """Return the port of a group that is registered with a Service; None for others.

    Args:
        folder: folder of the cluster.
        service: Service of the registration.
        registered: APIServices of the cluster.
    """
    metadata = service["metadata"]
    for item in registered:
        target = part(item["spec"], "service")
        names = (target.get("namespace"), target.get("name"))
        file = folder / "extensions" / str(item["spec"].get("group"))
        if names == (metadata["namespace"], metadata["name"]) and file.is_file():
            return int(file.read_text())
    return None


def has_adapter(bindings: list[JsonObject]) -> bool:
    """Return whether a program installs a server behind the aggregation layer. Pure."""
    return any(
        part(item, "roleRef").get("name") == _ADAPTER_ROLE
        and not str(item["metadata"]["name"]).startswith("system:")
        for item in bindings
    )


class ApiExtension:
    """An HTTPS server on loopback, registered with the API server as an APIService."""

    def __init__(self, ctx: ClusterContext, api: ApiGroup, answer: Answer) -> None:
        self._ctx = ctx
        self._api = api
        self._answer = answer

    def run(self, stop: threading.Event) -> None:
        """Serve until `stop` is set."""
        server = _Server(("127.0.0.1", 0), _Handler, pages=True)  # TLS
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
        note_port(self._ctx.dir, self._api.group, port)
        changed = threading.Event()
        bindings = Informer(self._ctx.watches, _BINDINGS, changed)
        registered = Informer(self._ctx.watches, APISERVICES, changed)
        for each in (bindings, registered):
            each.start(stop)
        while not stop.is_set():
            changed.wait(_REGISTER_SECONDS)
            changed.clear()
            if bindings.synced.is_set() and registered.synced.is_set() and not stop.is_set():
                is_left = self._api.is_adapter and has_adapter(bindings.items())
                self._register(port, registered.items(), is_left=is_left)
        server.shutdown()
        server.server_close()

    def _register(self, port: int, registered: list[JsonObject], *, is_left: bool) -> None:
        """Register this server; if a program installs an adapter, remove the registration.

        Otherwise the program's registration would conflict with fields of another manager.
        """
        name = self._api.group.split(".", 1)[0] + "-metrics"
        target = {"name": name, "namespace": _NAMESPACE, "port": port}
        mine = f"{self._api.version}.{self._api.group}"
        kube = self._ctx.kube
        try:
            wanted = self._change(registered, mine, target, is_left=is_left)
            # what is watched can be older than what a program has registered meanwhile
            if wanted is not None and wanted == self._change(
                kube.list(APISERVICES), mine, target, is_left=is_left
            ):
                if wanted == "delete":
                    kube.delete(f"{APISERVICES}/{mine}")
                else:
                    self._create(mine, target)
        except KubeError as error:
            _LOG.warning("%s: %s", self._api.group, error)

    @staticmethod
    def _change(
        registered: list[JsonObject], mine: str, target: JsonObject, *, is_left: bool
    ) -> Literal["create", "delete"] | None:
        """Return what to do about the registration named `mine`."""
        known = {item["metadata"]["name"]: item for item in registered}
        service = part(known.get(mine, {}), "spec", "service")
        is_own = (service.get("name"), service.get("namespace")) == (target["name"], _NAMESPACE)
        if is_left:
            return "delete" if is_own else None
        return "create" if mine not in known or (is_own and service != target) else None

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


class _Server(OwnHttpServer):
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
        except LookupError as error:
            self._refuse(404, "NotFound", str(error))
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
