"""DRA drivers of a cluster, which publish a node's devices while a driver's pod runs on it.

Rules: `dra.*`. The pods come from DaemonSets that the user applied.
"""

import logging
import re
import threading
import time
from collections.abc import Mapping

from gke_inference.catalogue.accelerators import catalogue_labels
from twin.cluster.base.context import ClusterContext
from twin.cluster.base.fields import part, parts
from twin.cluster.base.informer import Informer
from twin.cluster.base.pace import rest
from twin.cluster.devices.devices import DRIVERS, devices_of, resource_slice
from twin.cluster.devices.interfaces import CLASSES, device_class
from twin.cluster.devices.interfaces import DRIVER as NETWORK_DRIVER
from twin.wire.kube import JsonObject, KubeError

_LOG = logging.getLogger(__name__)
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
_CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
_IDLE_SECONDS = 1.0
_PROGRAMS = {
    "gpu": re.compile(r"(^|/)dra-driver-nvidia-gpu([:@][^/]*)?$"),
    "tpu": re.compile(r"(^|/)dra-driver-google-tpu([:@][^/]*)?$"),
}
_INSTALLER = re.compile(r"(^|/)cos-nvidia-installer([:@][^/]*)?$")


class DeviceDrivers:
    """Publishes and deletes the ResourceSlices of a cluster's nodes."""

    def __init__(self, ctx: ClusterContext) -> None:
        self._ctx = ctx
        self._wake = threading.Event()
        self._pods = Informer(ctx.watches, "/api/v1/pods", self._wake)
        self._nodes = Informer(ctx.watches, "/api/v1/nodes", self._wake)
        self._slices = Informer(ctx.watches, SLICES, self._wake)
        self._since: dict[str, float] = {}
        """Monotonic time since which a driver could publish, by name of the slice."""

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set."""
        informers = (self._pods, self._nodes, self._slices)
        for informer in informers:
            informer.start(stop)
        while not all(informer.synced.is_set() for informer in informers):
            if stop.wait(0.05):
                return
        self._install_classes(stop)
        while not stop.is_set():
            begun = time.thread_time()
            try:
                self.scan(time.monotonic())
            except KubeError as error:
                _LOG.warning("device drivers: %s", error)
                stop.wait(_IDLE_SECONDS)
            stop.wait(rest(begun))
            self._wake.wait(_IDLE_SECONDS)
            self._wake.clear()

    def scan(self, now: float) -> None:
        """Publish slices that are due, and delete slices without a driver or node."""
        wanted = slices_of(self._nodes.items(), self._pods.items())
        self._since = {name: self._since.get(name, now) for name in wanted}
        delay = self._ctx.rules.scaled("dra.publish")
        published = {
            item["metadata"]["name"]
            for item in self._slices.items()
            if item["spec"]["driver"] in (*DRIVERS.values(), NETWORK_DRIVER)
        }
        for name in published - wanted.keys():
            self._delete(name)
        for name in wanted.keys() - published:
            if now - self._since[name] >= delay:
                self._publish(wanted[name])

    def _install_classes(self, stop: threading.Event) -> None:
        """Create GKE's own DeviceClasses (rule network.classes), with retries."""
        for name in CLASSES:
            while not stop.is_set():
                try:
                    self._ctx.kube.post(_CLASSES, device_class(name))
                except KubeError as error:
                    if error.status != 409:
                        _LOG.warning("device class %s: %s", name, error)
                        stop.wait(_IDLE_SECONDS)
                        continue
                break

    def _publish(self, body: JsonObject) -> None:
        try:
            self._ctx.kube.post(SLICES, body)
        except KubeError as error:
            if error.status not in {404, 409, 422}:  # the node is gone, or the slice exists
                raise

    def _delete(self, name: str) -> None:
        try:
            self._ctx.kube.delete(f"{SLICES}/{name}")
        except KubeError as error:
            if error.status != 404:
                raise


def slices_of(nodes: list[JsonObject], pods: list[JsonObject]) -> dict[str, JsonObject]:
    """Return the slices that drivers publish after their delay, by name. Pure.

    Args:
        nodes: Nodes of the cluster.
        pods: Pods of the cluster; only those of drivers and of the NVIDIA driver installer matter.
    """
    on: dict[str, set[str]] = {}
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if node and _is_ready(pod):
            on.setdefault(node, set()).update(_programs(pod))
    found: dict[str, JsonObject] = {}
    for node in nodes:
        running = on.get(node["metadata"]["name"], set())
        for devices in devices_of(part(node["metadata"], "labels")):
            if _has_driver(devices.driver, node, running):
                body = resource_slice(node, devices)
                found[body["metadata"]["name"]] = body
    return found


def _has_driver(driver: str, node: JsonObject, running: set[str]) -> bool:
    """Return whether a driver runs on a node and its requirements are met."""
    keys, labels = catalogue_labels(), part(node["metadata"], "labels")
    if driver == NETWORK_DRIVER:
        return True  # GKE runs it on nodes with its label
    if driver == DRIVERS["tpu"]:
        return "tpu" in running
    is_ours = labels.get(keys["no_gpu_plugin"]) == "true" and keys["gpu_driver"] not in labels
    return is_ours and {"gpu", "installer"} <= running


def _is_ready(pod: JsonObject) -> bool:
    conditions = parts(part(pod, "status"), "conditions")
    is_leaving = "deletionTimestamp" in pod["metadata"]
    return not is_leaving and any(
        each["type"] == "Ready" and each["status"] == "True" for each in conditions
    )


def _programs(pod: JsonObject) -> set[str]:
    spec: Mapping[str, JsonObject] = pod["spec"]
    images = [str(each.get("image", "")) for each in parts(dict(spec), "containers")]
    first = [str(each.get("image", "")) for each in parts(dict(spec), "initContainers")]
    found = {
        kind
        for kind, pattern in _PROGRAMS.items()
        if any(pattern.search(image) for image in images)
    }
    return found | ({"installer"} if any(_INSTALLER.search(each) for each in first) else set())
