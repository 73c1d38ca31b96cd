"""The pods that prepare nodes for GPUDirect-TCPX and -TCPXO, as in Google's manifests.

Sources: GoogleCloudPlatform/container-engine-accelerators @992db81
gpudirect-tcpx/nccl-tcpx-installer.yaml, gpudirect-tcpxo/nccl-tcpxo-installer.yaml and
nri_device_injector/nri-device-injector.yaml. The script that runs on the node has the same effect
as theirs; the installer also creates the file that the daemons of pods wait for.
"""

from typing import Final

from gke_inference.base.manifests import Manifest
from gke_inference.catalogue.accelerators import accelerator, accelerators_on, catalogue_labels
from gke_inference.catalogue.node_networks import DRIVER_LIBRARIES, InterfaceNetwork
from gke_inference.catalogue.versions import image

_PRIVILEGED: Final = {"privileged": True}
_MACHINE_TYPE: Final = "node.kubernetes.io/instance-type"

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
rm -f {libraries}/.{name}-plugin-*
chmod 755 /scripts/container_entry.sh
/scripts/container_entry.sh install --install-nccl
mkdir -p {libraries}
{without_nccl}cp -r {built}/. {libraries}
touch {mark}
"""


def plugin_installer(network: InterfaceNetwork) -> Manifest:
    """Return the pod spec that installs NCCL's plug-in and prepares the interfaces of a node."""
    without_nccl = "" if network.has_nccl else f"rm -f {network.built}/libnccl.so*\n"
    script = _INSTALL.format(
        built=network.built,
        libraries=DRIVER_LIBRARIES,
        mark=network.plugin_mark,
        name=network.name,
        without_nccl=without_nccl,
    )
    install: Manifest = {
        "args": [script],
        "command": ["/bin/sh", "-c"],
        "image": image(network.plugin_image).reference,
        "name": f"nccl-{network.name}-installer",
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
    return {
        **_node_agent(network, folders),
        "containers": [pause],
        "initContainers": [*_preparation(network), install],
    }


def _preparation(network: InterfaceNetwork) -> list[Manifest]:
    if network.node_setup_image is None:
        return []
    prepare: Manifest = {
        "command": ["nsenter", "-at", "1", "--", "sh", "-c", _PREPARE],
        "image": image(network.node_setup_image).reference,
        "name": "pre-installation",
        "resources": _small("10m"),
        "securityContext": _PRIVILEGED,
    }
    return [prepare]


def device_injector(network: InterfaceNetwork) -> Manifest:
    """Return the pod spec of the plug-in of containerd that gives containers named devices."""
    folders = {"dev": "/dev", "nri": "/var/run/nri"}
    injector: Manifest = {
        "image": image("device_injector").reference,
        "name": "device-injector",
        "resources": _small("150m"),
        "securityContext": _PRIVILEGED,
        "volumeMounts": [{"mountPath": path, "name": name} for name, path in folders.items()],
    }
    return {**_node_agent(network, folders), "containers": [injector]}


def _node_agent(network: InterfaceNetwork, folders: dict[str, str]) -> Manifest:
    """Return the parts of a pod spec that both agents share: nodes, host access and volumes."""
    required = {"nodeSelectorTerms": [{"matchExpressions": _with_interfaces(network)}]}
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


def _with_interfaces(network: InterfaceNetwork) -> list[Manifest]:
    """Return what selects the nodes: by machine type, where not all of the GPU's have interfaces.

    NCCL on other nodes would find the plug-in and have nothing to use it with.
    """
    chips = [accelerator(name) for name in accelerators_on(network.name)]
    selected: list[Manifest] = [
        {
            "key": catalogue_labels()["gpu_accelerator"],
            "operator": "In",
            "values": [chip.gke_type for chip in chips],
        }
    ]
    if {each.name for chip in chips for each in chip.machines} != set(network.machines):
        machines = {"key": _MACHINE_TYPE, "operator": "In", "values": network.machines}
        selected.append(machines)
    return selected


def _small(cpu: str) -> Manifest:
    return {"limits": {"memory": "512Mi"}, "requests": {"cpu": cpu, "memory": "64Mi"}}
