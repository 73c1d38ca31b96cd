"""The interfaces of a pod beside its own: whether the daemon that drives them can start.

Rule: `network.tcpxo`.
"""

import re
from typing import Final

from twin.cluster.base.fields import part, parts
from twin.cluster.nodes.interfaces import interface_names
from twin.wire.kube import JsonObject, Kube
from twin.world.machines import UnknownMachineError, machine
from twin.world.node_networks import network_of

_DAEMON: Final = re.compile(r"(^|/)tcpgpudmarxd-dev([:@][^/]*)?$")
_AGENTS: Final = (
    re.compile(r"(^|/)nccl-plugin-gpudirecttcpx-dev([:@][^/]*)?$"),
    re.compile(r"(^|/)nri-device-injector([:@][^/]*)?$"),
)
_DEVICES: Final = "devices.gke.io/container."
_PATH: Final = re.compile(r"^- path: (/dev/\S+)$", re.MULTILINE)
_NODE_DEVICES: Final = {
    *(f"/dev/nvidia{at}" for at in range(8)),
    "/dev/dmabuf_import_helper",
    "/dev/nvidia-uvm",
    "/dev/nvidiactl",
}
_LIBRARIES: Final = "/usr/local/nvidia/lib64"
_NODE_FOLDERS: Final = {
    "/hostprocsysfs": "/proc/sys",
    "/hostsysfs": "/sys",
    _LIBRARIES: "/home/kubernetes/bin/nvidia/lib64",
}
_FAILED: Final = "Startup probe failed: cat: /run/health-check: No such file or directory"


class InitializingError(Exception):
    """A sidecar does not pass its startup probe, so the other containers do not start."""


def network_of_pod(kube: Kube, pod: JsonObject, node: JsonObject) -> str | None:
    """Return `tcpxo` if the engine of a pod uses all such interfaces of its node, or None.

    Raises:
        InitializingError: Its daemon has not all devices, interfaces or folders, or the agents of
            the node are not ready.
    """
    spec: JsonObject = pod["spec"]
    daemons = [
        each
        for each in (*parts(spec, "initContainers"), *parts(spec, "containers"))
        if _DAEMON.search(str(each.get("image", "")))
    ]
    if not daemons:
        return None
    labels = part(node["metadata"], "labels")
    try:
        network = network_of(machine(labels.get("node.kubernetes.io/instance-type", "")))
    except UnknownMachineError:
        network = None
    if network is None or network.technology != "tcpxo":
        raise InitializingError(_FAILED)
    names = interface_names(pod)
    if len(names) < network.nics or not _is_equipped(pod, daemons[0]):
        raise InitializingError(_FAILED)
    running = kube.list("/api/v1/pods", field_selector=f"spec.nodeName={node['metadata']['name']}")
    images = [image for each in running if _is_ready(each) for image in _images(each)]
    if not all(any(agent.search(image) for image in images) for agent in _AGENTS):
        raise InitializingError(_FAILED)
    return "tcpxo" if _has_plugin(pod, parts(spec, "containers")[0], names) else None


def _is_equipped(pod: JsonObject, daemon: JsonObject) -> bool:
    """Return whether a daemon has every device, folder and capability of Google's manifest."""
    notes = part(pod["metadata"], "annotations")
    listed = set(_PATH.findall(str(notes.get(f"{_DEVICES}{daemon['name']}", ""))))
    context = part(daemon, "securityContext")
    added: list[str] = part(context, "capabilities").get("add") or []
    is_able = context.get("privileged") is True or "NET_ADMIN" in added
    folders = _folders(pod, daemon)
    return listed >= _NODE_DEVICES and is_able and _NODE_FOLDERS.items() <= folders.items()


def _has_plugin(pod: JsonObject, engine: JsonObject, names: list[str]) -> bool:
    """Return whether NCCL in an engine finds the plug-in, and uses every interface of the pod.

    Otherwise, it sends over the pod's own interface, without an error.
    """
    values = {each["name"]: str(each.get("value", "")) for each in parts(engine, "env")}
    used = set(values.get("NCCL_FASTRAK_IFNAME", "").split(","))
    searched = values.get("LD_LIBRARY_PATH", "").split(":")
    has_apertures = _folders(pod, engine).get("/dev/aperture_devices") == "/dev/aperture_devices"
    return used == set(names) and _LIBRARIES in searched and has_apertures


def _folders(pod: JsonObject, container: JsonObject) -> dict[str, str]:
    """Return the folders of the node that a container mounts, by their path in it."""
    volumes = {each["name"]: part(each, "hostPath") for each in parts(pod["spec"], "volumes")}
    found = {
        str(each["mountPath"]): str(volumes.get(each["name"], {}).get("path", ""))
        for each in parts(container, "volumeMounts")
    }
    return {inside: path for inside, path in found.items() if path}


def _is_ready(pod: JsonObject) -> bool:
    conditions = parts(part(pod, "status"), "conditions")
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _images(pod: JsonObject) -> list[str]:
    spec: JsonObject = pod["spec"]
    containers = [*parts(spec, "initContainers"), *parts(spec, "containers")]
    return [str(each.get("image", "")) for each in containers]
