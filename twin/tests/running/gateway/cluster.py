"""The cluster of the gateway tests."""

import json
import os
import secrets
import shutil
import socket
import ssl
import subprocess
import threading
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gke_inference.gateway.body_memory import ROUTER
from twin.cluster.base.context import ClusterSpec
from twin.cluster.base.watches import Watches
from twin.cluster.controlplane.bootstrap import gateway_classes, load_all
from twin.cluster.gateway import GatewayController, stop_all
from twin.host import loopback_only
from twin.host.paths import TwinPaths
from twin.host.pki import make_authority
from twin.host.ports import free_port
from twin.host.processes import GO_SETTINGS
from twin.tests.running.gateway.engines import Engines
from twin.tests.running.gateway.manifests import health_check, pool, service
from twin.toolchain import share, tool
from twin.wire.kube import Kube
from twin.world.events import Events

PICKER_CONFIG = """apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins:
  - type: queue-scorer
  - type: kv-cache-utilization-scorer
schedulingProfiles:
  - name: default
    plugins:
      - {pluginRef: queue-scorer, weight: 2}
      - {pluginRef: kv-cache-utilization-scorer, weight: 2}
"""
BLOCK = os.getpid() % 250  # two test runs at once have addresses of their own
GKE_CRDS = Path(__file__).resolve().parents[4] / "twin" / "cluster" / "controlplane" / "crds"


class Cluster:
    """An API server with the kinds of a gateway; also the controller's context."""

    def __init__(self, folder: Path) -> None:
        self.paths = TwinPaths(folder)
        make_authority(self.paths.pki, "ca")
        self.dir = folder
        self.spec = ClusterSpec("acme", "us-east5", "c", ("us-east5-a",), False, "1.36.0", "u")
        self.events = Events(folder / "events.jsonl")
        self.engines = Engines()
        self.kubeconfig = folder / "kubeconfig"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._next_pod = 10
        self._stop = threading.Event()
        self._controller = threading.Thread()
        (folder / "logs").mkdir()

    def tool(self, program: str) -> Path:
        """Return the path of a program."""
        return tool(program)

    def start(self) -> None:
        """Start etcd and the API server, and install the kinds."""
        etcd, peer, api = free_port(), free_port(), free_port()
        self._launch(
            "etcd",
            f"--data-dir={self.dir}/etcd",
            f"--listen-client-urls=http://127.0.0.1:{etcd}",
            f"--advertise-client-urls=http://127.0.0.1:{etcd}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=default=http://127.0.0.1:{peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )
        token = secrets.token_hex(16)
        (self.dir / "tokens.csv").write_text(f'{token},admin,admin,"system:masters"\n')
        subprocess.run(
            ["openssl", "genrsa", "-out", self.dir / "sa.key", "2048"],
            check=True,
            capture_output=True,
        )
        self._launch(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{etcd}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={api}",
            f"--cert-dir={self.dir}/certs",
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=RBAC",
            f"--token-auth-file={self.dir}/tokens.csv",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.dir}/sa.key",
            f"--service-account-signing-key-file={self.dir}/sa.key",
            "--disable-admission-plugins=ServiceAccount",
        )
        authority = f"{self.dir}/certs/apiserver.crt"
        server = {"server": f"https://127.0.0.1:{api}", "certificate-authority": authority}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": server}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
        self.kubeconfig.write_text(json.dumps(config))
        self._await(f"https://127.0.0.1:{api}/readyz", token)
        self.kube = Kube(self.kubeconfig)
        self.watches = Watches(self.kube)
        self._install_kinds()
        self.apply(*gateway_classes())
        self.start_body_router()

    def start_controller(self) -> None:
        """Start the controller, in threads of this process."""
        self._stop = threading.Event()
        self._controller = threading.Thread(target=GatewayController(self).run, args=(self._stop,))
        self._controller.start()

    def stop_controller(self) -> None:
        """End the controller; the Envoys stay."""
        self._stop.set()
        self._controller.join(timeout=10)

    def _await(self, url: str, token: str) -> None:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        headers = {"Authorization": f"Bearer {token}"}
        request = urllib.request.Request(url, headers=headers)  # noqa: S310  (https)
        limit = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(request, context=context, timeout=2).read()  # noqa: S310
                return
            except OSError:
                assert time.monotonic() < limit, f"{url} does not answer"
                time.sleep(0.1)

    def _install_kinds(self) -> None:
        files = [
            *share("crds/gateway").glob("*.yaml"),
            *share("crds/inference").glob("*.yaml"),
            *GKE_CRDS.glob("networking.gke.io_*.yaml"),
        ]
        for file in files:
            for obj in load_all(file):
                if obj["kind"] == "CustomResourceDefinition":
                    self.kube.apply(obj, manager="test", strict=False)
        limit = time.monotonic() + 30
        paths = [
            "/apis/gateway.networking.k8s.io/v1/httproutes",
            "/apis/inference.networking.k8s.io/v1/inferencepools",
            "/apis/inference.networking.x-k8s.io/v1alpha2/inferenceobjectives",
            "/apis/networking.gke.io/v1/gcproutingextensions",
            "/apis/networking.gke.io/v1/gcpbackendpolicies",
            "/apis/networking.gke.io/v1/gcptrafficextensions",
            "/apis/networking.gke.io/v1/healthcheckpolicies",
        ]
        while paths:
            assert time.monotonic() < limit, f"not served: {paths[0]}"
            try:
                self.kube.get(paths[0])
                paths.pop(0)
            except Exception:  # noqa: BLE001
                time.sleep(0.1)

    def _launch(self, program: str, *arguments: str, name: str = "") -> None:
        name = name or program
        argv = [str(tool(program)), *arguments]
        if program in ("epp", "llm-d-router"):  # it listens on all interfaces
            argv = loopback_only.command(argv)
        with (self.dir / "logs" / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                argv,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env={**GO_SETTINGS, **os.environ, "KUBECONFIG": str(self.kubeconfig)},
            )

    def pid(self, name: str) -> int:
        """Return the process of a program."""
        return self._processes[name].pid

    def kill(self, name: str) -> None:
        """Kill a process at once."""
        process = self._processes.pop(name)
        process.kill()
        process.wait(timeout=10)

    def stop(self) -> None:
        """End everything."""
        if self._controller.is_alive():
            self.stop_controller()
        stop_all(self.dir)
        for name in reversed(list(self._processes)):
            self.kill(name)
        self.engines.close()
        shutil.rmtree(self.dir / "etcd", ignore_errors=True)

    def apply(self, *objects: dict[str, Any]) -> None:
        """Create or change objects."""
        for obj in objects:
            self.kube.apply(obj, manager="test")

    def delete(self, api_version: str, kind: str, name: str, namespace: str = "default") -> None:
        """Delete an object."""
        self.kube.delete(self.kube.path_of(api_version, kind, namespace, name))

    def status(self, api_version: str, kind: str, name: str) -> dict[str, Any]:
        """Return the status of an object of namespace default."""
        path = self.kube.path_of(api_version, kind, "default", name)
        return self.kube.get(path).get("status") or {}

    def pod(self, name: str, labels: dict[str, str], address: str | None = None) -> str:
        """Create a Ready pod; without an address given an engine answers on a new one."""
        if address is None:
            address = f"127.48.{BLOCK}.{self._next_pod}"
            self._next_pod += 1
            self.engines.serve(address)
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": labels},
            "spec": {"containers": [{"name": "main", "image": "example.com/main:1"}]},
        }
        self.apply(body)
        now = "2026-01-01T00:00:00Z"
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
        status = {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [ready],
        }
        self.kube.patch(
            f"/api/v1/namespaces/default/pods/{name}/status", {"status": status}, "merge"
        )
        return address

    def move_port(self, pod: str, port: int, real: int) -> None:
        """Say where a container port really listens, as the node agent does."""
        file = self.dir / "podports" / "default" / f"{pod}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({str(port): ["127.0.0.1", real]}))

    def start_body_router(self) -> None:
        """Start the body router and make its pod and Service."""
        grpc = free_port()
        self._launch(
            "body-router",
            "--address=127.0.0.1",
            f"--grpc-port={grpc}",
            f"--grpc-health-port={free_port()}",
            f"--metrics-port={free_port()}",
            *ROUTER.arguments,
        )
        _await_port(grpc)
        self.move_port("bbr", 9004, grpc)
        self.pod("bbr", {"app": "bbr"}, f"127.48.{BLOCK}.1")
        self.apply(service("bbr", {"app": "bbr"}, 9004))

    def start_picker(
        self,
        pool: str,
        name: str | None = None,
        config: str = "",
        content: str = PICKER_CONFIG,
        flags: Sequence[str] = (),
        program: str = "epp",
        reads: str = "100ms",
    ) -> int:
        """Start an endpoint picker of a pool and make its pod and Service, named `POOL-epp`.

        Return the port of its metrics. One without queues reads those of its engines every `reads`.
        """
        metrics = free_port()
        name = name or f"{pool}-epp"
        file = self.dir / f"{name}.yaml"
        file.write_text(content + config)
        grpc = free_port()
        self._launch(
            program,
            f"--pool-name={pool}",
            "--pool-namespace=default",
            f"--config-file={file}",
            f"--grpc-port={grpc}",
            f"--grpc-health-port={free_port()}",
            f"--metrics-port={metrics}",
            "--metrics-endpoint-auth=false",
            "--tracing=false",
            "--enable-pprof=false",
            "--v=1",
            *([] if "flowControl" in content else [f"--refresh-metrics-interval={reads}"]),
            *flags,
            name=name,
        )
        _await_port(grpc)  # a pod is Ready when its program answers
        self.move_port(name, 9002, grpc)
        self.pod(name, {"app": name}, f"127.48.{BLOCK}.2")
        self.apply(service(name, {"app": name}, 9002))
        return metrics

    def model(
        self,
        name: str,
        replicas: int = 2,
        failure_mode: str = "FailClose",
        reads: str = "100ms",
    ) -> list[str]:
        """Make the pool of a model, its picker, policies and pods; return the pods' addresses."""
        addresses = [self.pod(f"{name}-{n}", {"model": name}) for n in range(replicas)]
        self.apply(pool(name, f"{name}-epp", failure_mode), health_check(name))
        self.start_picker(name, reads=reads)
        return addresses


def _await_port(port: int) -> None:
    limit = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert time.monotonic() < limit, f"port {port} does not answer"
            time.sleep(0.05)
