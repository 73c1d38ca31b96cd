"""A control plane with GKE's objects, and the capacity controllers."""

import json
import shutil
import threading
import time

import pytest

from twin import daemon
from twin.cluster.autoscaler.autoscaler import Autoscaler
from twin.cluster.base.context import ClusterContext, ClusterSpec
from twin.cluster.controlplane import bootstrap, kinds, stored_kinds
from twin.cluster.controlplane.blocks import hold_free_block
from twin.cluster.controlplane.konnectivity import Konnectivity
from twin.cluster.controlplane.processes import ControlPlane
from twin.cluster.metrics_api.server import CustomMetrics, ExternalMetrics
from twin.cluster.monitoring import kube_state_metrics, server
from twin.cluster.monitoring.controller import Monitoring
from twin.cluster.nodes.gpu_drivers import GpuDrivers
from twin.cluster.nodes.pools import PoolController
from twin.host import processes
from twin.host.paths import TwinPaths
from twin.tests.eventually import pause
from twin.world.capacity import World

ZONES = ("us-central1-a", "us-central1-b")


class Cluster:
    """One cluster and its controllers, in this process."""

    def __init__(self, ctx: ClusterContext) -> None:
        self.ctx = ctx
        self.kube = ctx.kube
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start the controllers."""
        self._stop = threading.Event()
        parts = [
            Konnectivity(self.ctx),
            PoolController(self.ctx),
            Autoscaler(self.ctx),
            GpuDrivers(self.ctx),
            Monitoring(self.ctx),
            CustomMetrics(self.ctx),
            ExternalMetrics(self.ctx),
        ]
        self._threads = [threading.Thread(target=part.run, args=(self._stop,)) for part in parts]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End the controllers."""
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=10)

    def world(self, **world) -> None:
        """Change what capacity there is."""
        World.model_validate(world).save(self.ctx.paths.capacity_file)

    def apply(self, *objects) -> None:
        """Apply objects as a user."""
        for obj in objects:
            self.kube.apply(obj, manager="test")

    def until(self, reached, what: str, seconds: float = 40.0):
        """Wait for a condition and return its value."""
        began = time.monotonic()
        while not (value := reached()):
            waited = time.monotonic() - began
            assert waited < seconds, f"not in {seconds:.0f} s: {what}"
            time.sleep(pause(waited))
        return value

    def nodes(self, **labels):
        """Return the nodes with some labels; `_` in a key stands for what follows gke's prefix."""
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        return self.kube.list("/api/v1/nodes", label_selector=selector or None)

    def nodes_of(self, compute_class: str):
        """Return the nodes of a class."""
        return self.nodes(**{"cloud.google.com/compute-class": compute_class})

    def running(self, app: str):
        """Return the running pods of a workload."""
        pods = self.kube.list("/api/v1/namespaces/default/pods", label_selector=f"app={app}")
        return [pod for pod in pods if pod["status"].get("phase") == "Running"]

    def reasons(self, app: str) -> set[str]:
        """Return the reasons of the autoscaler's events about a workload's pods."""
        return {event["reason"] for event in self._events(app)}

    def said(self, app: str) -> set[str]:
        """Return the messages of the autoscaler's events about a workload's pods."""
        return {event["message"] for event in self._events(app)}

    def _events(self, app: str):
        events = self.kube.list("/api/v1/namespaces/default/events")
        return [
            event
            for event in events
            if event["involvedObject"]["name"].startswith(f"{app}-")
            and event["source"].get("component") == "cluster-autoscaler"
        ]

    def kinds(self) -> list[str]:
        """Return the kinds of the timeline's events."""
        return [event["kind"] for event in self.ctx.events.read()]

    def remove(self, *apps: str) -> None:
        """Delete workloads and the classes of the same name, and wait until their nodes went."""
        for app in apps:
            self.kube.delete(f"/apis/apps/v1/namespaces/default/deployments/{app}")
        for app in apps:
            self.until(lambda app=app: not self.nodes_of(app), f"nodes of {app} gone")
            self.kube.delete(f"/apis/cloud.google.com/v1/computeclasses/{app}")


@pytest.fixture(scope="package")
def control_plane(tmp_path_factory):
    """A control plane with GKE's objects, no controllers."""
    paths = TwinPaths(tmp_path_factory.mktemp("gke") / "twin")
    paths.create()
    daemon.prepare(paths)
    paths.settings_file.write_text(json.dumps({"speed": 200}))
    folder = paths.cluster("us-central1", "test")
    spec = ClusterSpec("acme", "us-central1", "test", ZONES, False, "1.37.1-gke.1", "uid")
    spec.save(folder)
    block, guard = hold_free_block(int(time.time()))
    (folder / "block").write_text(str(block))
    plane = ControlPlane(paths, folder, block, spec.version)
    with guard:
        try:
            is_first = not stored_kinds.read(kinds.key(spec.version))
            plane.start()
            ctx = ClusterContext(paths, folder)
            bootstrap.install(ctx, threading.Event())
            if is_first:  # of this version on this machine; the tests see a later one
                plane.stop()
                shutil.rmtree(folder / "etcd")
                plane.start()
                bootstrap.install(ctx, threading.Event())
            yield ctx
        finally:
            for part in (server, kube_state_metrics):
                processes.stop(paths, part.process_name(folder))
            plane.stop()


@pytest.fixture(scope="package")
def cluster(control_plane):
    """The cluster with its controllers running."""
    found = Cluster(control_plane)
    (control_plane.dir / "pools").mkdir(exist_ok=True)
    found.start()
    yield found
    found.stop()
