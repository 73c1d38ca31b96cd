"""The kubelet's server of one cluster: `kubectl logs`, `exec`, `cp` and `port-forward`.

One process is the kubelet of all nodes, on a loopback port that every node reports. KWOK's own
server would not do: it reads logs in the format of a container runtime, runs commands without the
container's folders and user, and asks its clients for no certificate.
"""

import json
import threading
from pathlib import Path

from twin.cluster.base.context import ClusterContext
from twin.host import processes
from twin.host.paths import TwinPaths
from twin.host.pki import make_leaf
from twin.toolchain import wait_for

_CLIENT = "kube-apiserver-kubelet-client"
"""Name in the API server's certificate, as kubeadm's clusters have it."""
_LOOK_SECONDS = 2.0


def make_client(pki: Path, authority: Path) -> None:
    """Write the certificate with which the API server calls the kubelet."""
    make_leaf(pki, _CLIENT, authority, server=False)


def apiserver_flags(paths: TwinPaths, pki: Path) -> list[str]:
    """Return the API server's flags for its calls of the kubelet."""
    return [
        f"--kubelet-certificate-authority={paths.pki}/ca.crt",
        f"--kubelet-client-certificate={pki}/{_CLIENT}.crt",
        f"--kubelet-client-key={pki}/{_CLIENT}.key",
        "--kubelet-preferred-address-types=InternalIP",
    ]


def process_name(folder: Path) -> str:
    """Return the name under which a cluster's kubelet is recorded."""
    return f"{folder.name}.kubelet"


class Kubelet:
    """The kubelet's server, which runs once its program is built; it outlives this process."""

    def __init__(self, ctx: ClusterContext) -> None:
        self._ctx = ctx
        self._port = json.loads((ctx.dir / "ports.json").read_text())["kubelet"]

    def run(self, stop: threading.Event) -> None:
        """Keep it running until `stop` is set."""
        if not wait_for("access", stop):
            return
        name = process_name(self._ctx.dir)
        while not stop.is_set():
            if processes.pid_of(self._ctx.paths, name) is None:
                processes.start(self._ctx.paths, name, self._command())
            stop.wait(_LOOK_SECONDS)

    def _command(self) -> list[str]:
        pki = self._ctx.paths.pki
        return [
            str(self._ctx.tool("kubelet")),
            f"--address=127.0.0.1:{self._port}",
            f"--cluster={self._ctx.dir}",
            f"--certificate={pki}/local.crt",
            f"--key={pki}/local.key",
            f"--client-ca={pki}/ca.crt",
            f"--client-name={_CLIENT}",
        ]
