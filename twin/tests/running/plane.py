"""A control plane with GKE's controllers and the node agent, for tests of operators."""

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

from twin import daemon
from twin.cluster import agent as agents
from twin.cluster.autoscaler.autoscaler import Autoscaler
from twin.cluster.base.context import ClusterContext, ClusterSpec
from twin.cluster.controlplane import bootstrap
from twin.cluster.controlplane.blocks import hold_free_block
from twin.cluster.controlplane.konnectivity import Konnectivity
from twin.cluster.controlplane.processes import ControlPlane
from twin.cluster.devices.drivers import DeviceDrivers
from twin.cluster.nodes.disks import DiskProvisioner
from twin.cluster.nodes.gpu_drivers import GpuDrivers
from twin.cluster.nodes.interface_networks import InterfaceNetworks
from twin.host.paths import TwinPaths
from twin.tests.tools import needed

ZONES = ("us-east5-a", "us-east5-b")


def control_plane(paths: TwinPaths, operator: str, speed: float = 100) -> Iterator[ClusterContext]:
    """Run a control plane, or skip the test where a tool is missing.

    Args:
        paths: of a twin that is not there yet.
        operator: program that the cluster needs beside its own.
        speed: of the twin.
    """
    needed("etcd", "kube-apiserver", "kwok", operator)
    paths.create()
    daemon.prepare(paths)
    paths.settings_file.write_text(json.dumps({"speed": speed}))
    folder = paths.cluster("us-east5", "test")
    ClusterSpec("acme", "us-east5", "test", ZONES, False, "1.36.3-gke.1", "uid").save(folder)
    block, guard = hold_free_block(int(time.time()))
    (folder / "block").write_text(str(block))
    plane = ControlPlane(paths, folder, block, "1.36.3-gke.1")
    stop = threading.Event()
    threads: list[threading.Thread] = []
    with guard:
        try:
            plane.start()
            found = ClusterContext(paths, folder)
            (folder / "pools").mkdir(exist_ok=True)
            bootstrap.install(found, threading.Event())
            parts: list[Any] = [
                Konnectivity(found),
                agents.NodeAgent(found),
                Autoscaler(found),
                GpuDrivers(found),
                InterfaceNetworks(found),
                DiskProvisioner(found),
            ]
            parts.append(DeviceDrivers(found))
            threads = [threading.Thread(target=part.run, args=(stop,)) for part in parts]
            for thread in threads:
                thread.start()
            yield found
        finally:
            stop.set()
            for thread in threads:
                thread.join(timeout=15)
            agents.stop_all(folder)
            plane.stop()


def system_node() -> dict[str, Any]:
    """Return a node for the operators themselves."""
    resources = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "system-1",
            "labels": {"kubernetes.io/hostname": "system-1"},
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "status": {"capacity": resources, "allocatable": resources},
    }
