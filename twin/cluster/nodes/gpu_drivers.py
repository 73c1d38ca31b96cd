"""Installation of GPU drivers on new nodes, after which a node reports its GPUs.

Rule: `node.gpu.driver`. A node is Ready before its driver is installed. Until then, it has no
`nvidia.com/gpu`, and containers on it see no device.
"""

import logging
import threading
import time

from twin.cluster.base.context import ClusterContext
from twin.cluster.base.informer import Informer
from twin.cluster.nodes.node_objects import DRIVER_ANNOTATION, promised_devices
from twin.wire.kube import JsonObject, KubeError

_LOG = logging.getLogger(__name__)
_IDLE_SECONDS = 1.0
_BUSY_SECONDS = 0.1
_PROGRAM = "home/kubernetes/bin/nvidia/bin/nvidia-smi"


class GpuDrivers:
    """Installs the driver on each node that has none yet."""

    def __init__(self, ctx: ClusterContext) -> None:
        self._ctx = ctx
        self._wake = threading.Event()
        self._nodes = Informer(ctx.watches, "/api/v1/nodes", self._wake)
        self._since: dict[str, float] = {}
        """Monotonic time since which a node waits for its driver."""

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set."""
        self._nodes.start(stop)
        while not stop.is_set():
            try:
                is_busy = self.scan(time.monotonic())
            except KubeError as error:
                _LOG.warning("GPU drivers: %s", error)
                is_busy = False
            self._wake.wait(_BUSY_SECONDS if is_busy else _IDLE_SECONDS)
            self._wake.clear()

    def scan(self, now: float) -> bool:
        """Install the drivers that are due; return whether a node still waits for one."""
        waiting = {
            item["metadata"]["name"]: item for item in self._nodes.items() if promised_devices(item)
        }
        self._since = {name: self._since.get(name, now) for name in waiting}
        seconds = self._ctx.rules.scaled("node.gpu.driver")
        due = [name for name, since in self._since.items() if now - since >= seconds]
        for name in due:
            self._install(name, waiting[name])
        return len(due) < len(waiting)

    def _install(self, name: str, node: JsonObject) -> None:
        program = self._ctx.paths.volumes / "hosts" / name / _PROGRAM
        program.parent.mkdir(parents=True, exist_ok=True)
        program.touch(mode=0o755)
        devices = promised_devices(node)
        # In one request: the autoscaler must not see a node with neither GPUs nor the promise.
        told: JsonObject = {"metadata": {"annotations": {DRIVER_ANNOTATION: None}}}
        status = {"status": {"allocatable": devices, "capacity": devices}}
        try:
            made = self._ctx.kube.patch(f"/api/v1/nodes/{name}/status", {**told, **status})
            if promised_devices(made):  # a server that takes only the status in such a request
                self._ctx.kube.patch(f"/api/v1/nodes/{name}", told)
        except KubeError as error:
            if error.status != 404:  # 404: the node is gone
                raise
