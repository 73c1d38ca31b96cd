"""The pods of DRA drivers, as rendered by their charts, without parts that GKE nodes do not need.

Omitted from dra-driver-google-tpu v0.1.0: the container that only prints libtpu's log. Omitted from
dra-driver-nvidia-gpu v0.4.0: compute domains, which need NVLink between nodes. No pod sets a
priority class, because GKE does not allow system priority classes outside kube-system.
"""

from typing import Final

from gke_inference.base.manifests import Manifest
from gke_inference.catalogue.accelerators import catalogue_labels
from gke_inference.catalogue.versions import image

NVIDIA_ROOT: Final = "/home/kubernetes/bin/nvidia"
"""Folder where the driver installer puts the NVIDIA driver on Container-Optimized OS."""

_CDI: Final = "/var/run/cdi"
_GPU_HEALTH_PORT: Final = 51516
_PLUGINS: Final = "/var/lib/kubelet/plugins"
_PRIVILEGED: Final = {"privileged": True}
_REGISTRY: Final = "/var/lib/kubelet/plugins_registry"
_TPU_FOLDERS: Final = {
    "cdi": (_CDI, None),
    "dev": ("/dev", "DirectoryOrCreate"),
    "plugins": (_PLUGINS, None),
    "plugins-registry": (_REGISTRY, None),
    "pod-resources": ("/var/lib/kubelet/pod-resources", "DirectoryOrCreate"),
    "proc": ("/proc", "Directory"),
    "sys": ("/sys", "Directory"),
    "tpu-logs": ("/tmp/tpu_logs", "DirectoryOrCreate"),  # noqa: S108 - libtpu's own
}
_INSTALLER_FOLDERS: Final = {
    "cos-tools": ("/var/lib/cos-tools", "/build/cos-tools"),
    "dev": ("/dev", "/dev"),
    "nvidia": (NVIDIA_ROOT, "/usr/local/nvidia"),
    "root": ("/", "/root"),
    "vulkan": (f"{NVIDIA_ROOT}/vulkan/icd.d", "/etc/vulkan/icd.d"),
}
_INSTALL: Final = """\
if lsmod | grep nvidia; then
  echo "The GPU driver is installed already"
else
  /cos-gpu-installer install
fi
"""


def tpu_plugin(account: str) -> Manifest:
    """Return the pod spec of the TPU driver, for TPU nodes whose device plugin is off."""
    labels = catalogue_labels()
    settings = {
        "CDI_ROOT": _CDI,
        "DEVICE_CLASSES": "tpu",
        "KUBELET_PLUGINS_DIRECTORY_PATH": _PLUGINS,
        "KUBELET_REGISTRAR_DIRECTORY_PATH": _REGISTRY,
    }
    places = {
        "NODE_IP": "status.hostIP",
        "NODE_NAME": "spec.nodeName",
        "POD_NAME": "metadata.name",
        "POD_NAMESPACE": "metadata.namespace",
    }
    plugin: Manifest = {
        "command": ["tpu-dra-kubeletplugin"],
        "env": _environment(settings, places),
        "image": image("dra_driver_tpu").reference,
        "name": "tpu-dra-plugin",
        "resources": _small(),
        "securityContext": _PRIVILEGED,
        "volumeMounts": [
            {"mountPath": path, "name": name} for name, (path, _) in _TPU_FOLDERS.items()
        ],
    }
    return {
        "affinity": _nodes(
            {"key": labels["tpu_accelerator"], "operator": "Exists"},
            {"key": labels["dra_tpu"], "operator": "In", "values": ["true"]},
        ),
        "containers": [plugin, _control_agent()],
        "hostNetwork": True,
        "initContainers": [_network_optimizer()],
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "serviceAccountName": account,
        "tolerations": [{"operator": "Exists"}],
        "volumes": [_folder(name, path, kind) for name, (path, kind) in _TPU_FOLDERS.items()],
    }


def _network_optimizer() -> Manifest:
    return {
        "command": ["/tpu_network_optimizer.sh"],
        "image": image("tpu_network_optimizer").reference,
        "name": "tpu-network-optimization",
        "resources": _small(),
        "securityContext": _PRIVILEGED,
        "volumeMounts": [
            {"mountPath": "/sys", "name": "sys"},
            {"mountPath": "/proc", "name": "proc"},
        ],
    }


def _control_agent() -> Manifest:
    """Return the agent that libtpu queries about its host's chips, on port 8353 of the node."""
    return {
        "args": ["--logtostderr", "--census_enabled=false", "--gid=", "--uid=", "--chroot="],
        "command": ["vbar_control_agent_files/bin/vbar_control_agent"],
        "env": _environment({"TPU_ON_GKE": "true", "TPU_SKIP_MDS_QUERY": "true"}, {}),
        "image": image("tpu_control_agent").reference,
        "name": "vbar-control-agent",
        "resources": {
            "limits": {"memory": "150Mi"},
            "requests": {"cpu": "10m", "memory": "150Mi"},
        },
        "securityContext": {**_PRIVILEGED, "readOnlyRootFilesystem": True},
    }


def gpu_plugin(account: str) -> Manifest:
    """Return the pod spec of NVIDIA's DRA driver, which waits for the NVIDIA kernel driver."""
    driver = image("dra_driver_gpu").reference
    settings = {
        "CDI_ROOT": _CDI,
        "HEALTHCHECK_PORT": str(_GPU_HEALTH_PORT),
        "IMAGE_NAME": driver,
        "KUBELET_PLUGINS_DIRECTORY_PATH": _PLUGINS,
        "KUBELET_REGISTRAR_DIRECTORY_PATH": _REGISTRY,
        "LOG_VERBOSITY": "4",
        "NVIDIA_DRIVER_ROOT": NVIDIA_ROOT,
        "NVIDIA_MIG_CONFIG_DEVICES": "all",
        "NVIDIA_VISIBLE_DEVICES": "void",  # the driver's own container has no GPU
    }
    places = {"NAMESPACE": "metadata.namespace", "NODE_NAME": "spec.nodeName"}
    health = {"grpc": {"port": _GPU_HEALTH_PORT, "service": "liveness"}, "timeoutSeconds": 10}
    plugin: Manifest = {
        "args": ["-v", settings["LOG_VERBOSITY"]],
        "command": ["gpu-kubelet-plugin"],
        "env": _environment(settings, places),
        "image": driver,
        "livenessProbe": {**health, "failureThreshold": 3, "periodSeconds": 30},
        "name": "gpus",
        "resources": _small(),
        "securityContext": _PRIVILEGED,
        "startupProbe": {**health, "failureThreshold": 600, "periodSeconds": 1},
        "volumeMounts": [
            {"mountPath": _REGISTRY, "name": "plugins-registry"},
            {"mountPath": _PLUGINS, "mountPropagation": "Bidirectional", "name": "plugins"},
            {"mountPath": _CDI, "name": "cdi"},
            {
                "mountPath": "/driver-root",
                "mountPropagation": "HostToContainer",
                "name": "driver-root",
            },
        ],
    }
    return {
        "affinity": _nodes(
            {
                "key": catalogue_labels()["gpu_present"],
                "operator": "In",
                "values": ["true"],
            }
        ),
        "containers": [plugin],
        "initContainers": [_driver_check(driver, settings)],
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "serviceAccountName": account,
        "tolerations": [{"operator": "Exists"}],
        "volumes": [
            _folder("plugins-registry", _REGISTRY),
            _folder("plugins", _PLUGINS),
            _folder("cdi", _CDI),
            _folder("driver-root", NVIDIA_ROOT, "DirectoryOrCreate"),
            _folder("driver-root-parent", NVIDIA_ROOT.rpartition("/")[0], "DirectoryOrCreate"),
        ],
    }


def _driver_check(driver: str, settings: dict[str, str]) -> Manifest:
    wanted = {"KUBELET_PLUGINS_DIRECTORY_PATH", "KUBELET_REGISTRAR_DIRECTORY_PATH"} | {
        name for name in settings if name.startswith("NVIDIA_")
    }
    return {
        "command": ["bash", "/usr/bin/kubelet-plugin-prestart.sh"],
        "env": _environment({name: settings[name] for name in sorted(wanted)}, {}),
        "image": driver,
        "name": "init-container",
        "resources": _small(),
        "securityContext": _PRIVILEGED,
        "volumeMounts": [
            {
                "mountPath": "/driver-root-parent",
                "mountPropagation": "HostToContainer",
                "name": "driver-root-parent",
            }
        ],
    }


def nvidia_installer() -> Manifest:
    """Return the pod spec that installs the NVIDIA driver on nodes where GKE does not."""
    labels = catalogue_labels()
    settings = {
        "COS_TOOLS_DIR_CONTAINER": "/build/cos-tools",
        "COS_TOOLS_DIR_HOST": "/var/lib/cos-tools",
        "NVIDIA_INSTALL_DIR_CONTAINER": "/usr/local/nvidia",
        "NVIDIA_INSTALL_DIR_HOST": NVIDIA_ROOT,
        "ROOT_MOUNT_DIR": "/root",
        "VULKAN_ICD_DIR_CONTAINER": "/etc/vulkan/icd.d",
        "VULKAN_ICD_DIR_HOST": f"{NVIDIA_ROOT}/vulkan/icd.d",
    }
    installer: Manifest = {
        "command": ["bash", "-c", _INSTALL],
        "env": _environment(settings, {}),
        "image": image("nvidia_installer").reference,
        "imagePullPolicy": "Never",  # it is on the boot disk
        "name": "nvidia-driver-installer",
        "resources": _small("150m"),
        "securityContext": _PRIVILEGED,
        "volumeMounts": [
            {"mountPath": path, "name": name} for name, (_, path) in _INSTALLER_FOLDERS.items()
        ],
    }
    return {
        "affinity": _nodes(
            {"key": labels["gpu_accelerator"], "operator": "Exists"},
            {"key": labels["gpu_driver"], "operator": "DoesNotExist"},
        ),
        "automountServiceAccountToken": False,
        "containers": [
            {
                "image": image("pause").reference,
                "name": "pause",
                "resources": _small(),
                "securityContext": {"allowPrivilegeEscalation": False},
            }
        ],
        "hostNetwork": True,
        "hostPID": True,
        "initContainers": [installer],
        "priorityClassName": "system-node-critical",
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "tolerations": [{"operator": "Exists"}],
        "volumes": [_folder(name, path) for name, (path, _) in _INSTALLER_FOLDERS.items()],
    }


def _nodes(*expressions: Manifest) -> Manifest:
    terms = [{"matchExpressions": list(expressions)}]
    required = {"nodeSelectorTerms": terms}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def _environment(settings: dict[str, str], places: dict[str, str]) -> list[Manifest]:
    return [
        *({"name": name, "value": value} for name, value in settings.items()),
        *(
            {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
            for name, path in places.items()
        ),
    ]


def _folder(name: str, path: str, kind: str | None = None) -> Manifest:
    where = {"path": path} if kind is None else {"path": path, "type": kind}
    return {"hostPath": where, "name": name}


def _small(cpu: str = "10m") -> Manifest:
    return {"requests": {"cpu": cpu, "memory": "64Mi"}, "limits": {"memory": "512Mi"}}
