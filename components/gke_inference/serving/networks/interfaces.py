"""GPUDirect-TCPX and -TCPXO between the nodes of a model: interfaces, daemon and NCCL of a pod.

A pod names the networks of its interfaces in an annotation, and GKE's multi-networking connects
them. A daemon beside the engine moves data between GPUs and interfaces; GKE's device injector, a
plug-in of containerd, gives it the devices that its annotation lists, because the engine has the
GPUs. NCCL loads the plug-in that an installer put on the node (`AcceleratorInterfaces`). Settings:
catalogue/data/gpudirect.yaml; native sidecar and startup probe:
GoogleCloudPlatform/container-engine-accelerators @992db81 gpudirect-tcpxo/best-practice.md. Not
tested on real machines.
"""

import json
from typing import Final

from gke_inference.base.manifests import Manifest
from gke_inference.catalogue import versions
from gke_inference.catalogue.node_networks import (
    DRIVER_LIBRARIES,
    InterfaceNetwork,
    interface_network,
)

INTERFACES: Final = "networking.gke.io/interfaces"

_HOST_ACCESS_REASON: Final = "gke-inference/host-access-because"
_INITIALIZED_PERIODS: Final = 36
"""Periods of 5 seconds. Initialization takes about 30 s, after the installation of the plug-in on a
new node. A daemon that is still waiting then is restarted, and waits again."""
_START: Final = """\
set -e
until [ -e {mark} ]{bound}; do
  echo "waiting for {what}, which the DaemonSet nccl-{name}-installer creates"
  sleep 2
done
set -x
{start}"""
_HOST_FOLDERS: Final = {
    "nvidia": "/home/kubernetes/bin/nvidia/lib64",
    "proc-sys": "/proc/sys",
    "sys": "/sys",
}


def with_interfaces(template: Manifest, name: str) -> Manifest:
    """Return the pod template with the interfaces of a network, and the daemon that drives them.

    Args:
        template: Pod template whose first container is the engine.
        name: `tcpx` or `tcpxo`.
    """
    network, spec = interface_network(name), template["spec"]
    folder = network.folder
    template["metadata"]["annotations"] |= {
        _HOST_ACCESS_REASON: (
            f"{network.title} reads its plug-in, kernel settings and devices from the node"
        ),
        f"devices.gke.io/container.{_daemon_name(network)}": "".join(
            f"- path: /dev/{device}\n" for device in network.daemon.devices
        ),
        "networking.gke.io/default-interface": "eth0",
        INTERFACES: json.dumps(_interfaces(network)),
    }
    # As in Google's manifests, whose containers have the user of their images.
    spec["securityContext"] = {
        "runAsUser": 0,
        "seccompProfile": spec["securityContext"]["seccompProfile"],
    }
    spec["initContainers"] = [*spec.get("initContainers", []), _daemon(network)]
    source: Manifest = {"hostPath": {"path": folder.path}}
    spec["volumes"] += [
        {**(source if folder.of == "node" else {"emptyDir": {}}), "name": folder.volume},
        *({"hostPath": {"path": path}, "name": volume} for volume, path in _HOST_FOLDERS.items()),
    ]
    engine = spec["containers"][0]
    engine["volumeMounts"] += [
        {"mountPath": folder.path, "name": folder.volume},
        {"mountPath": DRIVER_LIBRARIES, "name": "nvidia"},
    ]
    present = {entry["name"] for entry in engine["env"]}  # the user's values take precedence
    settings = {**network.environment, folder.variable: folder.path}
    settings["GLOO_SOCKET_IFNAME"] = "eth0"  # Gloo connects to what NCCL's control connects to
    engine["env"] += [
        {"name": variable, "value": value}
        for variable, value in sorted(settings.items())
        if variable not in present
    ]
    return template


def _daemon_name(network: InterfaceNetwork) -> str:
    return f"{network.name}-daemon"


def _interfaces(network: InterfaceNetwork) -> list[dict[str, str]]:
    """Return the interfaces of a pod: its own network first, then one for each of the node."""
    return [
        {"interfaceName": f"eth{at}", "network": name}
        for at, name in enumerate(["default", *network.networks])
    ]


def _daemon(network: InterfaceNetwork) -> Manifest:
    """Return the daemon: a native sidecar, so engines start after it and stop before it.

    It waits for NCCL's plug-in, which only the engine loads: an engine that starts before the
    plug-in is complete would use the one interface of the node, and report nothing. It also waits
    for the devices in a folder of the node: after a reboot the plug-in is still there, and they
    are not (`operators/accelerator_interface_pods.py`).
    """
    daemon, folder = network.daemon, network.folder
    variables = {**daemon.environment, "LD_LIBRARY_PATH": DRIVER_LIBRARIES}
    is_of_node = folder.of == "node"
    shared: Manifest = {"mountPath": folder.path, "name": folder.volume}
    if is_of_node:  # mounts that the installer makes later appear in the container
        shared |= {"mountPropagation": "HostToContainer", "readOnly": True}
    mark = network.plugin_mark
    script = _START.format(
        bound=f" && ls {folder.path}/*/resource* >/dev/null 2>&1" if is_of_node else "",
        mark=mark,
        name=network.name,
        start=daemon.start,
        what=f"{mark} and devices in {folder.path}" if is_of_node else mark,
    )
    return {
        "args": [script],
        "command": ["/bin/sh", "-c"],
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "image": versions.image(network.daemon_image).reference,
        "name": _daemon_name(network),
        # Assumed: Google's manifests have no requests. A node has 208 vCPUs and 1,872 GiB.
        "resources": {"limits": {"memory": "16Gi"}, "requests": {"cpu": "4", "memory": "8Gi"}},
        "restartPolicy": "Always",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"add": list(daemon.capabilities)},
        },
        "startupProbe": {
            "exec": {"command": list(daemon.ready)},
            "failureThreshold": _INITIALIZED_PERIODS,
            "periodSeconds": 5,
        },
        "volumeMounts": [
            {"mountPath": "/hostprocsysfs", "name": "proc-sys"},
            {"mountPath": "/hostsysfs", "name": "sys"},
            {"mountPath": DRIVER_LIBRARIES, "name": "nvidia"},
            shared,
        ],
    }
