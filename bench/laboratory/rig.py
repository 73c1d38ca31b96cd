"""Programs between client and replicas: an API server, the real picker and the real Envoy."""

import http.client
import os
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench.laboratory.policies import Policy
from bench.laboratory.replicas import PAGE_PORT
from gke_inference.catalogue.versions import api, channel
from gke_inference.gateway.picker import picker_args
from simulator.replays.replica_spec import ENGINE_PORT
from twin import daemon
from twin.cluster.controlplane.blocks import hold_free_block
from twin.cluster.controlplane.processes import ControlPlane
from twin.cluster.gateway.envoy.dataplane import DataPlane
from twin.cluster.gateway.envoy.messages import EnvoyJson
from twin.cluster.gateway.translation.model import (
    Backend,
    Endpoint,
    GatewayModel,
    Listener,
    Match,
    Processor,
    Route,
    Target,
)
from twin.host import loopback_only, processes
from twin.host.paths import TwinPaths
from twin.host.ports import free_port
from twin.toolchain import envoy, share, tool
from twin.wire.kube import Kube, KubeError

NAMESPACE = "lab"
POOL = "models"
_READY_SECONDS = 90.0
_SCRAPE = "2ms"
"""In lockstep, each request of the picker is held until there is news (see `PickerPages`), so the
picker must send the next request immediately."""
_VERSION = channel("regular").default
_POOL_VERSION = api("inference_pool").api_version


class RigError(Exception):
    """A part of the laboratory did not start; the message names it and its log."""


class ApiOnly(ControlPlane):
    """etcd and API server of the twin, without node agents, which the laboratory replaces."""

    def start(self, has_kinds: bool = True) -> None:
        """Start both and wait until they answer."""
        self._start_api_server(has_kinds=has_kinds)


class LabDataPlane(DataPlane):
    """The twin's Envoy, whose cluster can also have a policy that GKE routes do not support."""

    policy: Policy | None = None

    def _write_clusters(self, wanted: dict[str, EnvoyJson], *, running: bool) -> None:
        for cluster in wanted.values():
            # a picker must not be considered dead on a busy machine, because time waits for it
            cluster.pop("health_checks", None)
            if self.policy is not None and self.policy.picker is None:
                cluster["load_balancing_policy"] = {"policies": [self.policy.envoy_policy()]}
        super()._write_clusters(wanted, running=running)


@dataclass
class _Started:
    process: subprocess.Popen[bytes]
    log: Path

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=3)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(timeout=10)


class Rig:
    """The laboratory's processes, as a context manager that stops them all.

    Args:
        folder: folder for files and logs.
        page_port: port of the replicas' metrics for the picker.
        look: interval at which the picker requests them.
    """

    def __init__(self, folder: Path, page_port: int = PAGE_PORT, look: str = _SCRAPE) -> None:
        self.folder = folder
        self._page_port = page_port
        self._look = look
        self._paths = TwinPaths(folder)
        self._started: list[_Started] = []
        self._plane: LabDataPlane | None = None

    def __enter__(self) -> "Rig":
        """Start the API server with the kinds that a picker watches.

        Raises:
            RigError: a part did not start.
        """
        for program in ("etcd", "kube-apiserver", "epp"):
            tool(program)
        daemon.prepare(self._paths)
        self._block, self._guard = hold_free_block(os.getpid())
        self._api = ApiOnly(self._paths, self.folder / "cluster", self._block, _VERSION)
        (self.folder / "logs").mkdir(parents=True, exist_ok=True)
        try:
            self._api.start()
            self._kube = Kube(self._api.kubeconfig)
            self._install()
        except (processes.ProcessError, KubeError) as error:
            self.__exit__()
            raise RigError(str(error)) from error
        except BaseException:  # nobody calls __exit__ then, and a server would stay
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Stop every process."""
        self.end_run()
        self._api.stop()
        self._guard.close()

    def address(self, number: int) -> str:
        """Return the address of a replica."""
        return f"127.{64 + 2 * self._block}.1.{number + 1}"

    def _install(self) -> None:
        for file in share("crds/inference").glob("*.yaml"):
            for obj in yaml.safe_load_all(file.read_text()):
                if obj and obj["kind"] == "CustomResourceDefinition":
                    self._kube.apply(obj, manager="lab", strict=False)
        self._kube.apply(_object("v1", "Namespace", NAMESPACE, namespace=None), manager="lab")
        pool = _object(_POOL_VERSION, "InferencePool", POOL)
        pool["spec"] = {
            "selector": {"matchLabels": {"app": POOL}},
            "targetPorts": [{"number": ENGINE_PORT}],
            "endpointPickerRef": {"name": f"{POOL}-epp", "port": {"number": 9002}},
        }
        self._await(lambda: self._kube.apply(pool, manager="lab"), "the InferencePool")

    @staticmethod
    def _await(attempt: Any, what: str) -> None:
        limit = time.monotonic() + _READY_SECONDS
        while True:
            try:
                attempt()
                return
            except (KubeError, OSError, http.client.HTTPException) as error:
                if time.monotonic() > limit:
                    raise RigError(f"{what}: {error}") from error
                time.sleep(0.1)

    def replicas(self, names: list[str]) -> None:
        """Create the Ready pods of the replicas, and remove those of a previous run."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        for pod in self._kube.get(path)["items"]:
            now = {"gracePeriodSeconds": 0}
            self._kube.delete(f"{path}/{pod['metadata']['name']}", now)
        for number, name in enumerate(names):
            pod = _object("v1", "Pod", name)
            pod["metadata"]["labels"] = {"app": POOL}
            pod["spec"] = {
                "automountServiceAccountToken": False,
                "containers": [{"name": "engine", "image": "example.com/engine:1"}],
            }
            self._await(self._account, "the service account")
            self._kube.apply(pod, manager="lab")
            status = {
                "phase": "Running",
                "podIP": self.address(number),
                "podIPs": [{"ip": self.address(number)}],
                "conditions": [
                    {
                        "type": "Ready",
                        "status": "True",
                        "lastTransitionTime": "2026-01-01T00:00:00Z",
                    }
                ],
            }
            self._kube.patch(f"{path}/{name}/status", {"status": status}, "merge")

    def _account(self) -> None:
        """Create the service account of all pods, because its controller does not run here."""
        self._kube.apply(_object("v1", "ServiceAccount", "default"), manager="lab")

    def gateway(self, policy: Policy, replicas: int) -> str:
        """Start the picker (if the policy has one) and Envoy, and return the gateway's URL."""
        endpoints = tuple(Endpoint(self.address(n), ENGINE_PORT) for n in range(replicas))
        picker = self._start_picker(policy, replicas) if policy.picker else None
        backend = Backend(f"pool/{NAMESPACE}/{POOL}", endpoints, None, picker, 3600)
        route = Route(f"{NAMESPACE}/{POOL}/0/0", Match(), (Target(backend.name),), 3600)
        port = free_port()
        model = GatewayModel(
            NAMESPACE,
            "lab",
            "127.0.0.1",
            (Listener("http", port, hosts=(("*", (route,)),)),),
            (backend,),
        )
        self._plane = LabDataPlane(self.folder, NAMESPACE, "lab", envoy())
        self._plane.policy = policy
        problem = self._plane.apply(model)
        if problem is not None:
            raise RigError(f"Envoy: {problem}")
        return f"http://127.0.0.1:{port}"

    def _start_picker(self, policy: Policy, replicas: int) -> Processor:
        file = self.folder / "picker.yaml"
        file.write_text(policy.picker or "")
        grpc, health, metrics = free_port(), free_port(), free_port()
        arguments = [
            *picker_args(NAMESPACE, POOL, is_highly_available=False),
            f"--config-file={file}",
            f"--grpc-port={grpc}",
            f"--grpc-health-port={health}",
            f"--metrics-port={metrics}",
            f"--model-server-metrics-port={self._page_port}",
            f"--refresh-metrics-interval={self._look}",
        ]
        begun = self._start(loopback_only.command([str(tool("epp")), *arguments]), "picker")

        def sees_pods() -> None:
            page = _fetch(f"http://127.0.0.1:{metrics}/metrics")
            found = [x for x in page.splitlines() if x.startswith("inference_pool_ready_pods{")]
            if not found or float(found[0].rsplit(" ", 1)[1]) < replicas:
                raise OSError("the picker does not see every replica yet")
            # its port for Envoy opens seconds after its metrics show pods
            socket.create_connection(("127.0.0.1", grpc), timeout=5).close()

        self._wait_for(begun, sees_pods, "the picker")
        return Processor(f"picker/{NAMESPACE}/{POOL}", (Endpoint("127.0.0.1", grpc),))

    def _start(self, command: list[str], name: str, cwd: Path | None = None) -> _Started:
        log = self.folder / "logs" / f"{name}.log"
        environment = {**os.environ, "KUBECONFIG": str(self._api.kubeconfig)}
        with log.open("ab") as stream:
            process = subprocess.Popen(
                command,
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
            )
        self._started.append(_Started(process, log))
        return self._started[-1]

    def _wait_for(self, begun: _Started, attempt: Any, what: str) -> None:
        def once() -> None:
            if begun.process.poll() is not None:
                raise RigError(f"{what} ended; log: {begun.log}")
            attempt()

        self._await(once, what)

    def end_run(self) -> None:
        """Stop replicas, picker and Envoy, but not the API server."""
        if self._plane is not None:
            self._plane.remove()
            self._plane = None
        for begun in reversed(self._started):
            begun.end()
        self._started.clear()


def _object(
    version: str, kind: str, name: str, namespace: str | None = NAMESPACE
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    if namespace is not None:
        metadata["namespace"] = namespace
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


def _fetch(url: str) -> str:
    host, _, path = url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=5)
    try:
        connection.request("GET", f"/{path}")
        response = connection.getresponse()
        if response.status != 200:
            raise OSError(f"{url} answers {response.status}")
        return response.read().decode()
    finally:
        connection.close()
