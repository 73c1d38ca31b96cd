"""The admission webhooks of an Autopilot cluster, as GKE's policy controller (Warden) has them."""

import base64
import json
import logging
import ssl
import threading
import time
from urllib.parse import urlsplit

from twin.cluster.admission.decision import Decision, accelerator_classes, decide
from twin.cluster.base.context import ClusterContext
from twin.host.own_callers import OwnHttpServer
from twin.wire.http_answers import Answers
from twin.wire.kube import JsonObject, Kube, KubeError

_LOG = logging.getLogger(__name__)
_CLASSES = "/apis/cloud.google.com/v1/computeclasses"
_MANAGER = "gke"
_DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
_SECONDS = 30  # the most that the API server accepts
_CALLED_SECONDS = 60.0
_CHANGES = ["CREATE", "UPDATE"]
MUTATING = "warden-mutating.common-webhooks.networking.gke.io"
VALIDATING = "warden-validating.common-webhooks.networking.gke.io"
_WORKLOADS = (
    ("", ["pods"], ["CREATE"]),  # requests and rights of a pod are fixed once it exists
    ("apps", ["daemonsets", "deployments", "replicasets", "statefulsets"], _CHANGES),
    ("batch", ["cronjobs", "jobs"], _CHANGES),
)
_LABELS = {"app": "probe"}
_PROBE: JsonObject = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "probe"},
    "spec": {
        "selector": {"matchLabels": _LABELS},
        "template": {
            "metadata": {"labels": _LABELS},
            "spec": {"containers": [{"name": "a", "image": "a"}], "hostNetwork": True},
        },
    },
}
"""A Deployment that the webhooks reject, and nothing else does."""


class Warden:
    """The server of the two webhooks; it answers until the process ends."""

    def __init__(self, kube: Kube, version: str) -> None:
        self._kube = kube
        self._version = version

    def decide(self, request: JsonObject) -> Decision:
        """Return the decision about a request of the API server."""
        workload = request["object"]
        return decide(
            workload,
            str(request.get("namespace", "")),
            self._version,
            accelerator_classes(self._classes()),
        )

    def _classes(self) -> list[JsonObject]:
        try:
            return self._kube.list(_CLASSES)
        except KubeError as error:
            if error.status != 404:  # a new cluster does not have the kind yet
                raise
            return []


def start(ctx: ClusterContext) -> None:
    """Serve the webhooks of a cluster, and register them before anything else is created.

    Raises:
        KubeError: the API server rejected the registration.
        TimeoutError: the API server does not call the webhooks.
    """
    server = _Server(("127.0.0.1", 0), _Handler, pages=True)  # TLS
    server.daemon_threads = True
    server.warden = Warden(ctx.kube, ctx.spec.version)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pki = ctx.paths.pki
    context.load_cert_chain(pki / "local.crt", pki / "local.key")
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    threading.Thread(target=server.serve_forever, daemon=True, name="serve-warden").start()
    authority = (pki / "ca.crt").read_bytes()
    for each in registrations(int(server.server_address[1]), authority):
        ctx.kube.apply(each, manager=_MANAGER)
    _wait(ctx.kube)


def _wait(kube: Kube) -> None:
    """Wait until the API server calls the webhooks, which it does some time after it has them.

    Raises:
        TimeoutError: it did not within a minute.
    """
    deadline = time.monotonic() + _CALLED_SECONDS
    while time.monotonic() < deadline:
        try:
            kube.post(_DEPLOYMENTS, _PROBE, dryRun="All")
        except KubeError as error:
            if VALIDATING in str(error):
                return
        time.sleep(0.2)
    raise TimeoutError(f"the API server does not call {VALIDATING}")


def registrations(port: int, authority: bytes) -> list[JsonObject]:
    """Return the registrations of both webhooks.

    Args:
        port: of the server on 127.0.0.1.
        authority: certificate that signed the server's, in PEM.
    """
    return [
        _registration("MutatingWebhookConfiguration", MUTATING, port, authority, _WORKLOADS[:1]),
        _registration("ValidatingWebhookConfiguration", VALIDATING, port, authority, _WORKLOADS),
    ]


def _registration(
    kind: str,
    name: str,
    port: int,
    authority: bytes,
    workloads: tuple[tuple[str, list[str], list[str]], ...],
) -> JsonObject:
    path = "mutate" if name == MUTATING else "validate"
    webhook: JsonObject = {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": {
            "caBundle": base64.b64encode(authority).decode(),
            "url": f"https://127.0.0.1:{port}/{path}",
        },
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "rules": [
            {
                "apiGroups": [group],
                "apiVersions": ["v1"],
                "operations": operations,
                "resources": resources,
                "scope": "Namespaced",
            }
            for group, resources, operations in workloads
        ],
        "sideEffects": "None",
        "timeoutSeconds": _SECONDS,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": [webhook],
    }


def answer(review: JsonObject, decision: Decision, *, mutates: bool) -> JsonObject:
    """Return the API server's review with the answer to it."""
    request = review["request"]
    response: JsonObject = {"uid": request["uid"], "allowed": True}
    if mutates:
        if decision.workload != request["object"]:
            response |= _patch(decision.workload)
        if decision.warnings:
            response["warnings"] = list(decision.warnings)
    elif decision.violations:
        response["allowed"] = False
        response["status"] = {"code": 400, "reason": "BadRequest", "message": decision.message}
    elif decision.warnings and request["kind"]["kind"] != "Pod":
        response["warnings"] = list(decision.warnings)
    return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}


def _patch(pod: JsonObject) -> JsonObject:
    changes = [
        {"op": "add", "path": "/metadata", "value": pod["metadata"]},
        {"op": "add", "path": "/spec", "value": pod["spec"]},
    ]
    patch = base64.b64encode(json.dumps(changes).encode()).decode()
    return {"patchType": "JSONPatch", "patch": patch}


class _Server(OwnHttpServer):
    warden: Warden


class _Handler(Answers):
    def do_POST(self) -> None:
        server = self.server
        if not isinstance(server, _Server):
            raise TypeError("served by another kind of server")
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            decision = server.warden.decide(review["request"])
        except (KubeError, ValueError) as error:
            _LOG.warning("%s: %s", self.path, error)
            self.reply(500, "text/plain", str(error).encode())
            return
        body = answer(review, decision, mutates=urlsplit(self.path).path == "/mutate")
        self.reply(200, "application/json", json.dumps(body).encode())
