"""The pods that prepare nodes for GPUDirect-TCPXO, as in Google's manifests.

Sources: GoogleCloudPlatform/container-engine-accelerators @992db81
gpudirect-tcpxo/nccl-tcpxo-installer.yaml and nri_device_injector/nri-device-injector.yaml. The
script that runs on the node has the same effect as theirs; the installer also creates the file
that the daemons of pods wait for.
"""

from typing import Final

from gke_inference.base.manifests import Manifest
from gke_inference.catalogue.accelerators import accelerator, accelerators_on, catalogue_labels
from gke_inference.catalogue.node_networks import TCPXO_LIBRARIES, tcpxo_plugin_mark
from gke_inference.catalogue.versions import image

_PRIVILEGED: Final = {"privileged": True}

_PREPARE: Final = """\
set -eu
iptables -I INPUT -p tcp -m tcp -j ACCEPT
modprobe import-helper
lspci -nn -D | grep '1ae0:0084' | while read -r address rest; do
  folder="/dev/aperture_devices/$address"
  mkdir -p "$folder"
  umount -R "$folder" 2>/dev/null || true
  mount --bind "$(readlink -f "/sys/bus/pci/devices/$address")" "$folder"
done
if [ -d /dev/aperture_devices ]; then
  chmod -R a+r /dev/aperture_devices
  chmod a+rw /dev/aperture_devices/*/resource*
fi
"""
"""Makes the PCI devices with the vendor and device ID of the network's apertures accessible."""

_INSTALL: Final = """\
set -ex
rm -f {libraries}/.tcpxo-plugin-*
chmod 755 /scripts/container_entry.sh
/scripts/container_entry.sh install --install-nccl
mkdir -p {libraries}
cp -r /var/lib/tcpxo/lib64/. {libraries}
touch {mark}
"""


def plugin_installer() -> Manifest:
    """Return the pod spec that installs NCCL's plug-in and prepares the interfaces of a node."""
    prepare: Manifest = {
        "command": ["nsenter", "-at", "1", "--", "sh", "-c", _PREPARE],
        "image": image("tcpxo_node_setup").reference,
        "name": "pre-installation",
        "resources": _small("10m"),
        "securityContext": _PRIVILEGED,
    }
    install: Manifest = {
        "args": [_INSTALL.format(libraries=TCPXO_LIBRARIES, mark=tcpxo_plugin_mark())],
        "command": ["/bin/sh", "-c"],
        "image": image("tcpxo_plugin").reference,
        "name": "nccl-tcpxo-installer",
        "resources": _small("150m"),
        "securityContext": _PRIVILEGED,
        "volumeMounts": [
            {"mountPath": "/usr/local", "name": "library-dir-host"},
            {"mountPath": "/var/lib", "name": "var-lib"},
        ],
    }
    pause: Manifest = {
        "image": image("pause").reference,
        "name": "pause",
        "resources": _small("10m"),
        "securityContext": {"allowPrivilegeEscalation": False},
    }
    folders = {"library-dir-host": "/home/kubernetes/bin", "var-lib": "/var/lib"}
    return {**_node_agent(folders), "containers": [pause], "initContainers": [prepare, install]}


def device_injector() -> Manifest:
    """Return the pod spec of the plug-in of containerd that gives containers named devices."""
    folders = {"dev": "/dev", "nri": "/var/run/nri"}
    injector: Manifest = {
        "image": image("device_injector").reference,
        "name": "device-injector",
        "resources": _small("150m"),
        "securityContext": _PRIVILEGED,
        "volumeMounts": [{"mountPath": path, "name": name} for name, path in folders.items()],
    }
    return {**_node_agent(folders), "containers": [injector]}


def _node_agent(folders: dict[str, str]) -> Manifest:
    """Return the parts of a pod spec that both agents share: nodes, host access and volumes."""
    types = [accelerator(name).gke_type for name in accelerators_on("tcpxo")]
    key = catalogue_labels()["gpu_accelerator"]
    nodes = {"matchExpressions": [{"key": key, "operator": "In", "values": types}]}
    required = {"nodeSelectorTerms": [nodes]}
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
        "automountServiceAccountToken": False,
        "hostNetwork": True,
        "hostPID": True,
        "priorityClassName": "system-node-critical",
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "tolerations": [{"operator": "Exists"}],
        "volumes": [{"hostPath": {"path": path}, "name": name} for name, path in folders.items()],
    }


def _small(cpu: str) -> Manifest:
    return {"limits": {"memory": "512Mi"}, "requests": {"cpu": cpu, "memory": "64Mi"}}
