"""The process that simulates GKE for one cluster: `python -m twin.cluster CLUSTER_DIR`."""

import logging
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Protocol

from twin.cluster.admission import warden
from twin.cluster.agent import NodeAgent
from twin.cluster.autoscaler.autoscaler import Autoscaler
from twin.cluster.base.context import ClusterContext
from twin.cluster.base.traces import Collector
from twin.cluster.controlplane import bootstrap
from twin.cluster.controlplane.blocks import GUARD_VARIABLE, hold_block
from twin.cluster.controlplane.endpoints import ServiceEndpoints
from twin.cluster.controlplane.konnectivity import Konnectivity
from twin.cluster.controlplane.kubelet import Kubelet
from twin.cluster.controlplane.ray_operator import RayOperator
from twin.cluster.delivery import ConfigSync
from twin.cluster.devices.drivers import DeviceDrivers
from twin.cluster.gateway import GatewayController
from twin.cluster.metrics_api.resources import ResourceMetrics
from twin.cluster.metrics_api.server import CustomMetrics, ExternalMetrics
from twin.cluster.monitoring.controller import Monitoring
from twin.cluster.nodes.disks import DiskProvisioner
from twin.cluster.nodes.gpu_drivers import GpuDrivers
from twin.cluster.nodes.interface_networks import InterfaceNetworks
from twin.cluster.nodes.pools import PoolController
from twin.cluster.services.connections import PodConnections
from twin.cluster.services.proxy import ServiceProxy
from twin.host.keep_running import start_all
from twin.host.paths import TwinPaths


class Controller(Protocol):
    """A part that runs until it is stopped."""

    def run(self, stop: threading.Event) -> None:
        """Run until `stop` is set."""


def _controllers(context: ClusterContext, *further: Controller) -> list[Controller]:
    parts: list[Controller] = [
        Konnectivity(context),
        Kubelet(context),
        ServiceEndpoints(context),
        PoolController(context),
        DeviceDrivers(context),
        GpuDrivers(context),
        InterfaceNetworks(context),
        DiskProvisioner(context),
        Autoscaler(context),
        Monitoring(context),
        ExternalMetrics(context),
        CustomMetrics(context),
        ResourceMetrics(context),
        ServiceProxy(context),
        PodConnections(context),
        NodeAgent(context),
        GatewayController(context),
        Collector(context),
        ConfigSync(context),
        *further,
    ]
    return parts


def _guard(folder: Path) -> socket.socket:
    """Return the guard of the cluster's pod addresses, inherited or newly acquired."""
    inherited = os.environ.pop(GUARD_VARIABLE, None)
    if inherited is None:
        return hold_block(int((folder / "block").read_text()))
    guard = socket.socket(fileno=int(inherited))
    guard.set_inheritable(False)  # engines outlive this process and must not hold it
    return guard


def main(folder: Path) -> None:
    """Run the controllers of the cluster in `folder` until SIGTERM."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: stop.set())
    signal.signal(signal.SIGINT, lambda _number, _frame: stop.set())
    # held while this process lives, so that no other cluster takes these pod addresses
    with _guard(folder):
        context = ClusterContext(TwinPaths.default(), folder)
        if context.spec.autopilot:
            warden.start(context)
        ray = RayOperator(context)
        bootstrap.install(context, stop, ray.kinds())
        parts = {type(part).__name__: part.run for part in _controllers(context, ray)}
        threads = start_all(parts, stop)
        stop.wait()
        for thread in threads:
            thread.join(timeout=5)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
