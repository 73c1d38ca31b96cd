"""The interfaces of a pod beside its own: whether the daemon that drives them can start.

Rules: `network.tcpx`, `network.tcpxo`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from twin.cluster.base.fields import part, parts
from twin.cluster.nodes.interfaces import interface_names
from twin.wire.kube import JsonObject, Kube
from twin.world.machines import UnknownMachineError, machine
from twin.world.node_networks import network_of

_DEVICES: Final = "devices.gke.io/container."
_PATH: Final = re.compile(r"^- path: (/dev/\S+)$", re.MULTILINE)
_GPUS: Final = frozenset({*(f"/dev/nvidia{at}" for at in range(8)), "/dev/nvidiactl"})
_LIBRARIES: Final = "/usr/local/nvidia/lib64"
_NODE_FOLDERS: Final = {
    "/hostprocsysfs": "/proc/sys",
    "/hostsysfs": "/sys",
    _LIBRARIES: "/home/kubernetes/bin/nvidia/lib64",
}
_APERTURES: Final = "/dev/aperture_devices"
_SOCKETS: Final = "/run/tcpx"
_INJECTOR: Final = re.compile(r"(^|/)nri-device-injector([:@][^/]*)?$")
_FAILED: Final = "Startup probe failed: "
_UNREACHED: Final = (
    "NET/GPUDirectTCPX : unix client {prefix}/get_gpu_fd_0000:04:00.0, gpumem fd client connect "
    "failed"
)


class InitializingError(Exception):
    """A daemon or an engine fails while it initializes, so the pod does not get ready."""


@dataclass(frozen=True)
class _Technology:
    """What Google's manifests of a technology have."""

    before: str
    """What is before the names of the daemon and the plug-in, which do not differ upstream: the
    folder of Google's registry, or a prefix in the repository of a stack."""
    devices: frozenset[str]
    interfaces_variable: str
    """Variable of NCCL with the interfaces that the plug-in uses."""
    failure: str
    """Message of the startup probe."""

    def daemon_of(self, containers: list[JsonObject]) -> JsonObject | None:
        """Return the container with the daemon, or None."""
        daemon = self._image("tcpgpudmarxd-dev")
        return next((each for each in containers if daemon.search(_image(each))), None)

    def is_prepared(self, images: list[str]) -> bool:
        """Return whether the agents that prepare a node are among its images."""
        agents = (self._image("nccl-plugin-gpudirecttcpx-dev"), _INJECTOR)
        return all(any(agent.search(image) for image in images) for agent in agents)

    def _image(self, name: str) -> re.Pattern[str]:
        return re.compile(rf"(^|/){self.before}{name}([:@][^/]*)?$")


_TECHNOLOGIES: Final[Mapping[str, _Technology]] = {
    "tcpx": _Technology(
        before="(gpudirect-tcpx/|tcpx-)",
        devices=_GPUS | {"/dev/nvidia-uvm"},
        interfaces_variable="NCCL_GPUDIRECTTCPX_SOCKET_IFNAME",
        failure="",  # `test` prints nothing
    ),
    "tcpxo": _Technology(
        before="(?<!gpudirect-tcpx/)",
        devices=_GPUS | {"/dev/nvidia-uvm", "/dev/dmabuf_import_helper"},
        interfaces_variable="NCCL_FASTRAK_IFNAME",
        failure="cat: /run/health-check: No such file or directory",
    ),
}


def network_of_pod(kube: Kube, pod: JsonObject, node: JsonObject) -> str | None:
    """Return `tcpx` or `tcpxo` if the engine of a pod uses all such interfaces of its node.

    Raises:
        InitializingError: Its daemon has not all devices, interfaces or folders, the agents of the
            node are not ready, or the engine does not reach the daemon.
    """
    spec: JsonObject = pod["spec"]
    containers = [*parts(spec, "initContainers"), *parts(spec, "containers")]
    for name, technology in _TECHNOLOGIES.items():
        daemon = technology.daemon_of(containers)
        if daemon is not None and not _can_start(kube, pod, daemon, node, name):
            raise InitializingError(_FAILED + technology.failure)
        if not _has_plugin(pod, parts(spec, "containers")[0], name):
            continue
        if name == "tcpx":
            _check_sockets(parts(spec, "containers")[0], daemon)
        return None if daemon is None else name
    return None


def _can_start(
    kube: Kube, pod: JsonObject, daemon: JsonObject, node: JsonObject, name: str
) -> bool:
    labels = part(node["metadata"], "labels")
    try:
        network = network_of(machine(labels.get("node.kubernetes.io/instance-type", "")))
    except UnknownMachineError:
        return False
    if network is None or network.technology != name:
        return False
    if len(interface_names(pod)) < network.nics or not _is_equipped(pod, daemon, name):
        return False
    running = kube.list("/api/v1/pods", field_selector=f"spec.nodeName={node['metadata']['name']}")
    images = [image for each in running if _is_ready(each) for image in _images(each)]
    return _TECHNOLOGIES[name].is_prepared(images)


def _is_equipped(pod: JsonObject, daemon: JsonObject, name: str) -> bool:
    """Return whether a daemon has every device, folder and capability of Google's manifest."""
    notes = part(pod["metadata"], "annotations")
    listed = set(_PATH.findall(str(notes.get(f"{_DEVICES}{daemon['name']}", ""))))
    context = part(daemon, "securityContext")
    added: list[str] = part(context, "capabilities").get("add") or []
    is_able = context.get("privileged") is True or "NET_ADMIN" in added
    folders = _folders(pod, daemon)
    has_devices = listed >= _TECHNOLOGIES[name].devices
    return has_devices and is_able and _NODE_FOLDERS.items() <= folders.items()


def _has_plugin(pod: JsonObject, engine: JsonObject, name: str) -> bool:
    """Return whether NCCL in an engine finds the plug-in, and uses every interface of the pod.

    Otherwise, it sends over the pod's own interface, without an error.
    """
    values = _variables(engine)
    used = set(values.get(_TECHNOLOGIES[name].interfaces_variable, "").split(","))
    searched = values.get("LD_LIBRARY_PATH", "").split(":")
    names = set(interface_names(pod))
    if not names or used != names or _LIBRARIES not in searched:
        return False
    return name != "tcpxo" or _folders(pod, engine).get(_APERTURES) == _APERTURES


def _check_sockets(engine: JsonObject, daemon: JsonObject | None) -> None:
    """Check that the plug-in of TCPX finds the sockets of a daemon. Without them, NCCL fails."""
    values = _variables(engine)
    prefix = values.get("NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX", "/tmp")  # noqa: S108 - its default
    volume = _volumes(engine).get(prefix)
    if daemon is None or volume is None or volume != _volumes(daemon).get(_SOCKETS):
        raise InitializingError(_UNREACHED.format(prefix=prefix))


def _variables(container: JsonObject) -> dict[str, str]:
    return {each["name"]: str(each.get("value", "")) for each in parts(container, "env")}


def _folders(pod: JsonObject, container: JsonObject) -> dict[str, str]:
    """Return the folders of the node that a container mounts, by their path in it."""
    volumes = {each["name"]: part(each, "hostPath") for each in parts(pod["spec"], "volumes")}
    found = {
        inside: str(volumes.get(name, {}).get("path", ""))
        for inside, name in _volumes(container).items()
    }
    return {inside: path for inside, path in found.items() if path}


def _volumes(container: JsonObject) -> dict[str, str]:
    """Return the names of the volumes that a container mounts, by their path in it."""
    return {str(each["mountPath"]): str(each["name"]) for each in parts(container, "volumeMounts")}


def _is_ready(pod: JsonObject) -> bool:
    conditions = parts(part(pod, "status"), "conditions")
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _images(pod: JsonObject) -> list[str]:
    spec: JsonObject = pod["spec"]
    containers = [*parts(spec, "initContainers"), *parts(spec, "containers")]
    return [_image(each) for each in containers]


def _image(container: JsonObject) -> str:
    return str(container.get("image", ""))
