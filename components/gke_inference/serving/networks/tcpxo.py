"""GPUDirect-TCPXO between the nodes of a model: interfaces, daemon and NCCL's settings of a pod.

A pod names the networks of its interfaces in an annotation, and GKE's multi-networking connects
them. A daemon beside the engine moves data between GPUs and interfaces; GKE's device injector, a
plug-in of containerd, gives it the devices that its annotation lists, because the engine has the
GPUs. NCCL loads the plug-in that an installer put on the node (`AcceleratorInterfaces`). Settings:
GoogleCloudPlatform/container-engine-accelerators @992db81 gpudirect-tcpxo/nccl-test-latest.yaml;
native sidecar and startup probe: best-practice.md there. Not tested on real machines.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

from gke_inference.base.manifests import Manifest
from gke_inference.catalogue import versions
from gke_inference.catalogue.data_file import read_table
from gke_inference.catalogue.node_networks import (
    TCPXO_LIBRARIES,
    interface_networks,
    tcpxo_interfaces,
    tcpxo_plugin_mark,
)

DAEMON: Final = "tcpxo-daemon"
INTERFACES: Final = "networking.gke.io/interfaces"

_FILE: Final = Path(versions.__file__).parent / "data" / "tcpxo.yaml"
_HOST_ACCESS_REASON: Final = "gke-inference/host-access-because"
_WHY: Final = "GPUDirect-TCPXO reads its plug-in, kernel settings and devices from the node"
_HEALTH: Final = "/run/health-check"
_INITIALIZED_PERIODS: Final = 36
"""Periods of 5 seconds. Initialization takes about 30 s, after the installation of the plug-in on a
new node. A daemon that is still waiting then is restarted, and waits again."""
_START: Final = """\
set -e
until [ -e {mark} ]; do
  echo "waiting for {mark}, which the DaemonSet nccl-tcpxo-installer creates"
  sleep 2
done
set -x
chmod 755 /fts/entrypoint_rxdm_container.sh
exec /fts/entrypoint_rxdm_container.sh --num_hops=2
"""
_HOST_FOLDERS: Final = {
    "aperture-devices": "/dev/aperture_devices",
    "nvidia": "/home/kubernetes/bin/nvidia/lib64",
    "proc-sys": "/proc/sys",
    "sys": "/sys",
}


def with_tcpxo(template: Manifest) -> Manifest:
    """Return the pod template with the interfaces of TCPXO, and the daemon that drives them.

    Args:
        template: Pod template whose first container is the engine.
    """
    table, spec = _table(), template["spec"]
    template["metadata"]["annotations"] |= {
        _HOST_ACCESS_REASON: _WHY,
        f"devices.gke.io/container.{DAEMON}": "".join(
            f"- path: /dev/{name}\n" for name in table["daemon_devices"]
        ),
        "networking.gke.io/default-interface": "eth0",
        INTERFACES: json.dumps(_interfaces()),
    }
    # As in Google's manifests, whose containers have the user of their images.
    spec["securityContext"] = {
        "runAsUser": 0,
        "seccompProfile": spec["securityContext"]["seccompProfile"],
    }
    spec["initContainers"] = [*spec.get("initContainers", []), _daemon()]
    spec["volumes"] += [
        {"hostPath": {"path": path}, "name": name} for name, path in _HOST_FOLDERS.items()
    ]
    engine, device = spec["containers"][0], table["device_folder"]
    engine["volumeMounts"] += [
        {"mountPath": device["path"], "name": "aperture-devices"},
        {"mountPath": TCPXO_LIBRARIES, "name": "nvidia"},
    ]
    present = {entry["name"] for entry in engine["env"]}  # the user's values take precedence
    settings = {**table["environment"], device["variable"]: device["path"]}
    settings["GLOO_SOCKET_IFNAME"] = "eth0"  # Gloo connects to what NCCL's control connects to
    engine["env"] += [
        {"name": name, "value": value}
        for name, value in sorted(settings.items())
        if name not in present
    ]
    return template


def _interfaces() -> list[dict[str, str]]:
    """Return the interfaces of a pod: its own network first, then one for each of the node."""
    networks = ["default", *interface_networks(tcpxo_interfaces())]
    return [
        {"interfaceName": f"eth{at}", "network": network} for at, network in enumerate(networks)
    ]


def _daemon() -> Manifest:
    """Return the daemon: a native sidecar, so engines start after it and stop before it.

    It waits for NCCL's plug-in, which only the engine loads: an engine that starts before the
    plug-in is complete would use the one interface of the node, and report nothing.
    """
    return {
        "args": [_START.format(mark=tcpxo_plugin_mark())],
        "command": ["/bin/sh", "-c"],
        "env": [
            {"name": "HEALTH_CHECK_LOG_FILE", "value": _HEALTH},
            {"name": "LD_LIBRARY_PATH", "value": TCPXO_LIBRARIES},
        ],
        "image": versions.image("tcpxo_daemon").reference,
        "name": DAEMON,
        # Assumed: Google's manifests have no requests. A node has 208 vCPUs and 1,872 GiB.
        "resources": {"limits": {"memory": "16Gi"}, "requests": {"cpu": "4", "memory": "8Gi"}},
        "restartPolicy": "Always",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"add": ["NET_ADMIN", "NET_BIND_SERVICE"]},
        },
        "startupProbe": {
            "exec": {"command": ["cat", _HEALTH]},
            "failureThreshold": _INITIALIZED_PERIODS,
            "periodSeconds": 5,
        },
        "volumeMounts": [
            {"mountPath": "/hostprocsysfs", "name": "proc-sys"},
            {"mountPath": "/hostsysfs", "name": "sys"},
            {"mountPath": TCPXO_LIBRARIES, "name": "nvidia"},
        ],
    }


@cache
def _table() -> dict[str, Any]:
    return read_table(_FILE)
