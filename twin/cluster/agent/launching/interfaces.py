"""The interfaces of a pod beside its own: whether the daemon that drives them can start.

Rule: `network.tcpxo`.
"""

import re
from typing import Final

from twin.cluster.base.fields import part, parts
from twin.cluster.nodes.interfaces import networks_of
from twin.wire.kube import JsonObject, Kube
from twin.world.machines import UnknownMachineError, machine
from twin.world.node_networks import network_of

_DAEMON: Final = re.compile(r"(^|/)tcpgpudmarxd-dev([:@][^/]*)?$")
_AGENTS: Final = (
    re.compile(r"(^|/)nccl-plugin-gpudirecttcpx-dev([:@][^/]*)?$"),
    re.compile(r"(^|/)nri-device-injector([:@][^/]*)?$"),
)
_DEVICES: Final = "devices.gke.io/container."


class InitializingError(Exception):
    """A sidecar does not pass its startup probe, so the other containers do not start."""


def network_of_pod(kube: Kube, pod: JsonObject, node: JsonObject) -> str | None:
    """Return `tcpxo` if a pod uses all such interfaces of its node, or None.

    Raises:
        InitializingError: Its daemon lacks devices, interfaces, or what the agents of the node
            prepare.
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
    notes = part(pod["metadata"], "annotations")
    has_devices = f"{_DEVICES}{daemons[0]['name']}" in notes
    interfaces = set(networks_of(pod))
    is_equipped = network is not None and network.technology == "tcpxo"
    if not is_equipped or network is None or len(interfaces) < network.nics or not has_devices:
        raise InitializingError(_FAILED)
    running = kube.list("/api/v1/pods", field_selector=f"spec.nodeName={node['metadata']['name']}")
    images = [image for each in running if _is_ready(each) for image in _images(each)]
    if not all(any(agent.search(image) for image in images) for agent in _AGENTS):
        raise InitializingError(_FAILED)
    return "tcpxo"


_FAILED: Final = "Startup probe failed: cat: /run/health-check: No such file or directory"


def _is_ready(pod: JsonObject) -> bool:
    conditions = parts(part(pod, "status"), "conditions")
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _images(pod: JsonObject) -> list[str]:
    spec: JsonObject = pod["spec"]
    containers = [*parts(spec, "initContainers"), *parts(spec, "containers")]
    return [str(each.get("image", "")) for each in containers]
