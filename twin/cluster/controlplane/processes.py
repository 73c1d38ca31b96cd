"""One real Kubernetes control plane as plain processes on loopback."""

import functools
import json
import secrets
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from gke_inference.catalogue.versions import gke_minimum, version_key
from twin.cluster.controlplane import kubelet, stored_kinds
from twin.cluster.controlplane.kinds import key
from twin.host import processes
from twin.host.paths import TwinPaths
from twin.host.pki import make_authority, make_leaf, make_service_account_key
from twin.host.ports import free_ports
from twin.host.private_files import private_folder, write_private
from twin.toolchain import tool
from twin.world.rules import Rules

SERVICE_CIDR = "10.96.0.0/16"  # handed out by the API server only; nothing routes it
NODE_MASK = 25  # 126 pod addresses a node; GKE allows 110 pods
_ETCD = "etcd"
_ETCD_CA = "etcd-ca"
"""etcd's own authority, as in kubeadm's clusters: it lets every certificate of its authority read
and write, and the twin's authority signs certificates of other programs."""
_ETCD_CLIENT = "apiserver-etcd-client"
_HPA_SYNC_MIN_SECONDS = 1.0
_STOP_SECONDS = 1.0  # the API server drains for longer, and etcd has what it wrote
KWOK_STAGES = Path(__file__).with_name("kwok_stages")
_Started = tuple[str, subprocess.Popen[bytes] | None, Callable[[], bool]]


def kwok_args() -> list[str]:
    """Return the KWOK arguments that load the twin's stages for pods and nodes."""
    return [f"--config={file}" for file in sorted(KWOK_STAGES.glob("*.yaml"))]


def twin_token(paths: TwinPaths) -> str:
    """Return the token with which the deployer reaches every cluster of this twin."""
    file = paths.pki / "token"
    if not file.exists():
        write_private(file, secrets.token_urlsafe(24))
    return file.read_text()


@dataclass(frozen=True)
class Ports:
    """Ports of one control plane, kept across restarts so that kubeconfigs stay valid."""

    etcd: int
    peer: int
    api: int
    scheduler: int
    controller_manager: int
    kwok: int
    egress: int
    """Port of the proxy through which the API server reaches webhooks and extensions."""
    kubelet: int
    """Port of every node's kubelet (`kubelet.Kubelet`)."""

    @classmethod
    def load_or_choose(cls, file: Path) -> "Ports":
        """Return the ports in `file`; choose and write the missing ones."""
        known: dict[str, int] = json.loads(file.read_text()) if file.exists() else {}
        missing = [each.name for each in fields(cls) if each.name not in known]
        if missing:
            known |= dict(zip(missing, free_ports(len(missing)), strict=True))
            file.write_text(json.dumps(known))
        return cls(**known)


class ControlPlane:
    """etcd, API server, scheduler, controller manager and KWOK of one cluster."""

    def __init__(self, paths: TwinPaths, folder: Path, block: int, version: str) -> None:
        """Describe a control plane; nothing is started.

        Args:
            paths: paths of the twin.
            folder: folder of the cluster.
            block: index of its range of pod addresses, 0 to 31.
            version: requested GKE version, which decides the enabled features.
        """
        self._version = version
        self._paths = paths
        self._folder = folder
        self._block = block
        self._pki = folder / "pki"
        folder.mkdir(parents=True, exist_ok=True)
        self.ports = Ports.load_or_choose(folder / "ports.json")
        self.server = f"https://127.0.0.1:{self.ports.api}"

    @property
    def pod_cidr(self) -> str:
        """Range of the cluster's pod addresses."""
        return f"127.{64 + 2 * self._block}.0.0/15"

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of the cluster's administrator."""
        return self._folder / "kubeconfig"

    def process_names(self) -> list[str]:
        """Return the recorded names of the processes, last started first."""
        parts = ("kwok", "scheduler", "controller-manager", "apiserver", "etcd")
        return [f"{self._folder.name}.{part}" for part in parts]

    def start(self, has_kinds: bool = True) -> None:
        """Start the processes that do not run, and wait until all are ready.

        Args:
            has_kinds: whether a new cluster may have GKE's CRDs from its start.

        Raises:
            processes.ProcessError: a process did not start; the message names its log.
            twin.toolchain.ToolError: a tool is not built.
        """
        self._start_api_server(has_kinds=has_kinds)
        started = [self._start_controller_manager(), self._start_scheduler(), self._start_kwok()]
        for name, process, ready in started:
            if process is not None:
                processes.wait_ready(self._paths, name, process, ready)

    def _start_api_server(self, *, has_kinds: bool) -> None:
        """Start etcd and the API server if they do not run, and wait until both answer."""
        self._write_files()
        is_new = not any((self._folder / "etcd").iterdir())
        self._start_etcd()
        if is_new and has_kinds:
            stored_kinds.write(key(self._version), self._etcd_client())
        self._launch_api_server()

    def stop(self) -> None:
        """Stop the processes; etcd's data remains."""
        processes.stop(self._paths, *self.process_names(), grace=_STOP_SECONDS)

    def ready(self) -> bool:
        """Return whether the API server answers."""
        return self._answers(f"{self.server}/readyz", twin_token(self._paths))

    def _write_files(self) -> None:
        for folder in (self._pki, self._folder / "etcd"):
            private_folder(folder)
        authority = self._paths.pki / "ca"
        make_authority(self._pki, _ETCD_CA)
        make_leaf(self._pki, _ETCD, self._pki / _ETCD_CA, server=True)
        make_leaf(self._pki, _ETCD_CLIENT, self._pki / _ETCD_CA, server=False)
        make_leaf(self._pki, "apiserver", authority, server=True)
        make_authority(self._pki, "front-proxy-ca")
        make_leaf(self._pki, "aggregator", self._pki / "front-proxy-ca", server=False)
        make_leaf(self._pki, "egress", authority, server=False)
        kubelet.make_client(self._pki, authority)
        self._write_egress()
        make_service_account_key(self._pki)
        tokens = self._pki / "tokens.csv"
        if not tokens.exists():
            admin = twin_token(self._paths)
            users = {
                user: secrets.token_urlsafe(24) for user in ("controller-manager", "scheduler")
            }
            lines = [f'{admin},admin,admin,"system:masters"']
            lines += [f"{token},system:kube-{user},{user}" for user, token in users.items()]
            write_private(tokens, "\n".join(lines) + "\n")
            self._write_kubeconfig(self.kubeconfig, admin)
            for user, token in users.items():
                self._write_kubeconfig(self._folder / f"{user}.kubeconfig", token)
        backoff = int(Rules.of(self._paths).seconds("node.scheduler.backoff"))
        scheduler = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "podInitialBackoffSeconds": backoff,
            "podMaxBackoffSeconds": backoff,
            "clientConnection": {
                "kubeconfig": str(self._folder / "scheduler.kubeconfig"),
                "qps": 1000,
                "burst": 2000,
            },
        }
        (self._folder / "scheduler.json").write_text(json.dumps(scheduler))

    def _write_egress(self) -> None:
        """Configure the API server to reach the cluster through `konnectivity`."""
        tls = {
            "caBundle": str(self._paths.pki / "ca.crt"),
            "clientCert": str(self._pki / "egress.crt"),
            "clientKey": str(self._pki / "egress.key"),
        }
        transport = {"tcp": {"url": f"https://127.0.0.1:{self.ports.egress}", "tlsConfig": tls}}
        connection = {"proxyProtocol": "HTTPConnect", "transport": transport}
        selector = {
            "apiVersion": "apiserver.k8s.io/v1beta1",
            "kind": "EgressSelectorConfiguration",
            "egressSelections": [{"name": "cluster", "connection": connection}],
        }
        (self._folder / "egress.json").write_text(json.dumps(selector))

    def _write_kubeconfig(self, file: Path, token: str) -> None:
        cluster = {"server": self.server, "certificate-authority": str(self._paths.pki / "ca.crt")}
        name = self._folder.name  # its own in each cluster, so that kubectl can read several files
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        }
        write_private(file, json.dumps(config, indent=1))

    def _name(self, part: str) -> str:
        return f"{self._folder.name}.{part}"

    def _launch(
        self, part: str, program: str, arguments: list[str]
    ) -> subprocess.Popen[bytes] | None:
        name = self._name(part)
        if processes.pid_of(self._paths, name) is not None:
            return None
        argv = [str(tool(program)), *arguments]
        return processes.start(self._paths, name, argv)

    def _start_etcd(self) -> None:
        client = f"https://127.0.0.1:{self.ports.etcd}"
        peer = f"https://127.0.0.1:{self.ports.peer}"
        pki = self._pki
        arguments = [
            f"--data-dir={self._folder}/etcd",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            f"--trusted-ca-file={pki}/{_ETCD_CA}.crt",
            f"--cert-file={pki}/{_ETCD}.crt",
            f"--key-file={pki}/{_ETCD}.key",
            "--client-cert-auth",
            f"--peer-trusted-ca-file={pki}/{_ETCD_CA}.crt",
            f"--peer-cert-file={pki}/{_ETCD}.crt",
            f"--peer-key-file={pki}/{_ETCD}.key",
            "--peer-client-cert-auth",
            # what web pages use: the API server calls it by gRPC
            "--enable-grpc-gateway=false",
            "--cors=https://none.invalid:443",
            "--unsafe-no-fsync",  # a twin's state may be lost with the machine
            "--log-level=warn",
            "--quota-backend-bytes=2147483648",
        ]
        process = self._launch("etcd", "etcd", arguments)
        if process is not None:
            processes.wait_ready(
                self._paths,
                self._name("etcd"),
                process,
                lambda: self._answers(f"{client}/health", context=self._as_etcd_client()),
            )

    def _launch_api_server(self) -> None:
        pki = self._pki
        arguments = [
            f"--etcd-servers=https://127.0.0.1:{self.ports.etcd}",
            f"--etcd-cafile={pki}/{_ETCD_CA}.crt",
            f"--etcd-certfile={pki}/{_ETCD_CLIENT}.crt",
            f"--etcd-keyfile={pki}/{_ETCD_CLIENT}.key",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.ports.api}",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",  # its own Endpoints would be loopback: refused
            f"--service-cluster-ip-range={SERVICE_CIDR}",
            "--authorization-mode=Node,RBAC",
            f"--token-auth-file={pki}/tokens.csv",
            f"--client-ca-file={self._paths.pki}/ca.crt",
            f"--tls-cert-file={pki}/apiserver.crt",
            f"--tls-private-key-file={pki}/apiserver.key",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={pki}/sa.pub",
            f"--service-account-signing-key-file={pki}/sa.key",
            f"--requestheader-client-ca-file={pki}/front-proxy-ca.crt",
            "--requestheader-allowed-names=aggregator",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={pki}/aggregator.crt",
            f"--proxy-client-key-file={pki}/aggregator.key",
            # on in GKE: pods that request an accelerator tolerate its taint
            "--enable-admission-plugins=ExtendedResourceToleration",
            self.gates,
            *kubelet.apiserver_flags(self._paths, pki),
            f"--egress-selector-config-file={self._folder}/egress.json",
            "--allow-privileged=true",
            "--event-ttl=15m",
        ]
        process = self._launch("apiserver", "kube-apiserver", arguments)
        if process is not None:
            name = self._name("apiserver")
            processes.wait_ready(self._paths, name, process, self.ready, timeout=120)

    @property
    def gates(self) -> str:
        """Feature gates of the cluster's version (rule hpa.scale-to-zero)."""
        has_zero = version_key(self._version) >= version_key(gke_minimum("hpa-scale-to-zero"))
        return f"--feature-gates=HPAScaleToZero={str(has_zero).lower()}"

    def _start_controller_manager(self) -> _Started:
        config = self._folder / "controller-manager.kubeconfig"
        sync = max(_HPA_SYNC_MIN_SECONDS, Rules.of(self._paths).scaled("hpa.sync"))
        arguments = [
            f"--kubeconfig={config}",
            f"--authentication-kubeconfig={config}",
            f"--authorization-kubeconfig={config}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.ports.controller_manager}",
            "--leader-elect=false",
            f"--root-ca-file={self._paths.pki}/ca.crt",
            f"--service-account-private-key-file={self._pki}/sa.key",
            "--use-service-account-credentials=true",
            "--allocate-node-cidrs=true",
            f"--cluster-cidr={self.pod_cidr}",
            f"--node-cidr-mask-size={NODE_MASK}",
            f"--horizontal-pod-autoscaler-sync-period={sync:.1f}s",
            # rule kubernetes.endpoints: the API server rejects the loopback addresses that they
            # write
            "--controllers=*,-endpoints-controller,-endpointslice-controller",
            self.gates,
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        ]
        process = self._launch("controller-manager", "kube-controller-manager", arguments)
        url = f"https://127.0.0.1:{self.ports.controller_manager}/healthz"
        return self._name("controller-manager"), process, lambda: self._answers(url)

    def _start_scheduler(self) -> _Started:
        config = self._folder / "scheduler.kubeconfig"
        arguments = [
            f"--config={self._folder}/scheduler.json",
            f"--authentication-kubeconfig={config}",
            f"--authorization-kubeconfig={config}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.ports.scheduler}",
        ]
        process = self._launch("scheduler", "kube-scheduler", arguments)
        url = f"https://127.0.0.1:{self.ports.scheduler}/healthz"
        return self._name("scheduler"), process, lambda: self._answers(url)

    def _start_kwok(self) -> _Started:
        arguments = [
            f"--kubeconfig={self.kubeconfig}",
            *kwok_args(),
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
            "--node-lease-duration-seconds=40",
            "--node-ip=127.0.0.1",
            f"--node-port={self.ports.kubelet}",
            f"--server-address=127.0.0.1:{self.ports.kwok}",
        ]
        process = self._launch("kwok", "kwok", arguments)
        url = f"http://127.0.0.1:{self.ports.kwok}/healthz"
        return self._name("kwok"), process, lambda: self._answers(url)

    def _etcd_client(self) -> stored_kinds.EtcdClient:
        return stored_kinds.EtcdClient(
            address=f"127.0.0.1:{self.ports.etcd}",
            authority=self._pki / f"{_ETCD_CA}.crt",
            certificate=self._pki / f"{_ETCD_CLIENT}.crt",
            key=self._pki / f"{_ETCD_CLIENT}.key",
        )

    def _as_etcd_client(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self._pki / f"{_ETCD_CA}.crt"))
        context.load_cert_chain(
            self._pki / f"{_ETCD_CLIENT}.crt", self._pki / f"{_ETCD_CLIENT}.key"
        )
        return context

    def _answers(
        self, url: str, token: str | None = None, context: ssl.SSLContext | None = None
    ) -> bool:
        request = urllib.request.Request(url)  # noqa: S310 - built above, http or https
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),
            urllib.request.HTTPSHandler(context=context or _unverified()),
        )
        try:
            answer: Any = opener.open(request, timeout=5)
        except OSError:
            return False
        with answer:
            return bool(answer.status == 200)


@functools.cache
def _unverified() -> ssl.SSLContext:
    """Return a context for the self-signed certificates of scheduler and controller manager.

    One that verifies loads the certificates of all authorities, at each poll of a start.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
