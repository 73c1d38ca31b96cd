"""The pod of a model server, as a pure function of its hardware, files and engine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gke_inference.base.manifests import LONGEST_GRACE_SECONDS, Manifest, literal
from gke_inference.catalogue.accelerators import catalogue_taints
from gke_inference.catalogue.engines import engine
from gke_inference.catalogue.tracing import sampling_environment
from gke_inference.catalogue.versions import image
from gke_inference.intent.intent import ServingIntent
from gke_inference.intent.kv_offload import SHARED_MEMORY_GIB_PER_DEVICE
from gke_inference.serving.disaggregation import ROLE_LABEL, SETTLE_SECONDS, sidecar
from gke_inference.serving.disaggregation import environment as transfer_environment
from gke_inference.serving.disaggregation import port as engine_port
from gke_inference.serving.hardware import Hardware
from gke_inference.serving.kv.offload import disk_request, with_room
from gke_inference.serving.launch import HEALTH_PORT, started
from gke_inference.serving.launcher.node import HOOK_SECONDS
from gke_inference.serving.launcher.spec import Serving
from gke_inference.serving.live_adapters import LiveAdapters, loader_container
from gke_inference.serving.startup import start_minutes
from gke_inference.serving.weights import Storage

MODEL_LABEL = "gke-inference/model"
HARDWARE_LABEL = "gke-inference/hardware"
_STARTUP_PERIOD_SECONDS = 10
_SETTLE_SECONDS = 15
_AFTER_DRAIN_SECONDS = 60

LONGEST_ON_AUTOPILOT_SECONDS = LONGEST_GRACE_SECONDS - SETTLE_SECONDS - _AFTER_DRAIN_SECONDS
"""Longest answer that a terminating replica on Autopilot can finish: GKE gives a pod ten minutes at
scale-down (docs.cloud.google.com/kubernetes-engine/docs/how-to/extended-duration-pods; that
Autopilot allows no longer grace period is assumed)."""

_USER = 1000
_HOME = "/home/engine"

HOME_ENVIRONMENT = {"HOME": _HOME, "HF_HOME": f"{_HOME}/huggingface", "USER": "engine"}
"""The image's own user is root. Another user needs a home for files that engines cache at run
time."""
DRIVER_ENVIRONMENT = {"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64:/usr/local/cuda/lib64"}
"""Path where GKE mounts the NVIDIA driver, which not every image searches (accelerated-platforms
online-inference-gpu also sets it)."""


@dataclass(frozen=True)
class Pod:
    """Settings that all pods of one model share."""

    intent: ServingIntent
    service_account: str
    live: LiveAdapters | None = None
    """Adapters that are uploaded while it serves."""

    @property
    def model(self) -> str:
        """Key of the model."""
        return self.intent.model

    @property
    def role(self) -> str | None:
        """`prefill` or `decode`, where the two are disaggregated."""
        return None if self.intent.role is None else self.intent.role.value

    @property
    def longest_request_seconds(self) -> int:
        """Time that it has to finish its requests when it terminates."""
        return self.intent.longest_request_seconds

    @property
    def names(self) -> tuple[str, ...]:
        """Names served from the start, which no live adapter may use."""
        intent = self.intent
        return (intent.served_name, *sorted(intent.adapters), *sorted(intent.further_models))

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of every engine container, for trace sampling and export."""
        percent = self.intent.trace_percent
        return {} if percent is None else sampling_environment(self.model, percent)

    @property
    def labels(self) -> dict[str, str]:
        """Labels that an InferencePool selects, on all hardware and in all roles."""
        return {MODEL_LABEL: self.model}

    @property
    def own_labels(self) -> dict[str, str]:
        """Labels of the pods of this role."""
        return {**self.labels, **({ROLE_LABEL: self.role} if self.role else {})}

    @property
    def settle_seconds(self) -> int:
        """Time that a terminating pod accepts requests before it checks whether it is idle."""
        return SETTLE_SECONDS if self.role == "decode" else _SETTLE_SECONDS

    @property
    def settle_seconds_of_launcher(self) -> int:
        """Part of that time that the launcher waits, unless a Spot node has no time for it."""
        return self.settle_seconds - HOOK_SECONDS


def engine_pod(pod: Pod, node: Hardware, files: Storage, serving: Serving) -> Manifest:
    """Return the pod template of a server on one kind of hardware.

    It requests every chip and most of the processors of its node, so no second pod fits on it.
    """
    container = engine_container(pod, files, serving)
    is_alone = node.is_group or not engine(serving.engine).adapter_api
    offload = pod.intent.settings.kv_offload
    scratch = with_room(scratch_volumes(node.kind, node.devices_per_node), offload)
    container["resources"] = node.resources(files.cache_gib, disk_request(offload))
    container["volumeMounts"] += scratch_mounts(node.kind)
    return {
        "metadata": {
            "annotations": dict(files.annotations),
            "labels": template_labels(pod, node.kind),
        },
        "spec": {
            **pod_head(pod, node.compute_class),
            "containers": [container, *([] if is_alone else beside(pod, container))],
            **({"initContainers": [sidecar()]} if pod.role == "decode" else {}),
            "securityContext": pod_security(node.kind),
            "tolerations": tolerations([node.kind], node.compute_class, is_arm=node.has_arm),
            "volumes": [*files.volumes, *scratch],
        },
    }


def beside(pod: Pod, engine: Manifest) -> list[Manifest]:
    """Return the containers that run next to the engine.

    There are none in a group of hosts, where a restarting container ends the whole group, or in
    disaggregated serving, whose picker ignores adapters.
    """
    given = list(pod.names[1:])
    if pod.live is None and (not given or pod.role is not None):
        return []
    return [loader_container(engine, pod.live, list(pod.names), given)]


def engine_container(
    pod: Pod, files: Storage, serving: Serving, options: Sequence[str] = ()
) -> Manifest:
    """Return the engine's container without resources. `options` are passed to the launcher."""
    kind = serving.kind
    environment = {**files.environment, **_HOSTS[kind].environment, **pod.environment}
    container: Manifest = {
        "env": [
            *({"name": key, "value": literal(environment[key])} for key in sorted(environment)),
            *(transfer_environment() if pod.role else ()),
        ],
        "image": image(engine(serving.engine).hardware[kind].image).reference,
        # A third of what kubelet leaves a spot node's pods. The launcher, which gets SIGTERM then,
        # waits until load balancers have let go and open requests are finished.
        "lifecycle": {"preStop": {"sleep": {"seconds": HOOK_SECONDS}}},
        "name": serving.engine,
        "ports": [
            {
                "containerPort": engine_port(pod.role),
                "name": "engine" if pod.role == "decode" else "http",
            },
            health_port(),
            *_further_ports(serving),
        ],
        "securityContext": _container_security(kind),
        "volumeMounts": list(files.mounts),
        **probes(start_minutes(pod.intent, [serving])),
    }
    started(container, serving, options)
    for name, value in sorted(pod.intent.settings.variables.items()):
        container["env"].append({"name": name, "value": literal(value)})
    return container


def health_port(port: int = HEALTH_PORT) -> Manifest:
    """Return the port declaration of a launcher."""
    return {"containerPort": port, "name": f"health-{port}"}


def _further_ports(serving: Serving) -> list[Manifest]:
    """Return the ports of an engine that has gRPC, or its metrics, on one of their own.

    The invariant `monitored-ports` wants scraped ports declared.
    """
    ports = {"grpc": serving.grpc_port, "metrics": engine(serving.engine).metrics.port}
    return [
        {"containerPort": port, "name": each} for each, port in ports.items() if port is not None
    ]


def probes(minutes: int, port: int = HEALTH_PORT) -> Manifest:
    """Return the three probes: startup may take long, but a serving engine must respond.

    The kubelet counts from the container's start. A server that waits for its weights
    passes the startup probe, and its launcher counts from when they are available (`health.State`).

    Args:
        minutes: Time for a start.
        port: Port of the launcher.
    """
    return {
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": port},
            "failureThreshold": 6,
            "periodSeconds": 10,
            "timeoutSeconds": 5,
        },
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": port},
            "failureThreshold": 2,
            "periodSeconds": 5,
            "timeoutSeconds": 2,
        },
        "startupProbe": {
            "httpGet": {"path": "/startz", "port": port},
            "failureThreshold": minutes * 60 // _STARTUP_PERIOD_SECONDS,
            "periodSeconds": _STARTUP_PERIOD_SECONDS,
            "timeoutSeconds": 2,
        },
    }


def pod_head(pod: Pod, compute_class: str) -> Manifest:
    """Return the settings that all forms share: account, class, spread and grace period."""
    return {
        "automountServiceAccountToken": False,
        "nodeSelector": {"cloud.google.com/compute-class": compute_class},
        "serviceAccountName": pod.service_account,
        "terminationGracePeriodSeconds": pod.settle_seconds
        + pod.longest_request_seconds
        + _AFTER_DRAIN_SECONDS,
        "topologySpreadConstraints": [
            {
                "labelSelector": {"matchLabels": pod.own_labels},
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway",
            }
        ],
    }


def template_labels(pod: Pod, hardware: str) -> dict[str, str]:
    """Return the labels of a pod: those of the model, and its hardware kind."""
    return {
        **pod.own_labels,
        **model_pods_labels(pod),
        HARDWARE_LABEL: hardware,
        "app.kubernetes.io/managed-by": "gke-inference",
    }


def model_pods_labels(pod: Pod) -> dict[str, str]:
    """Return the labels of all server pods of a model, in all roles."""
    return {
        "app.kubernetes.io/component": "model-server",
        "app.kubernetes.io/name": pod.model,
    }


def tolerations(kinds: list[str], compute_class: str, *, is_arm: bool = False) -> list[Manifest]:
    """Return the tolerations of the pod: for its accelerators, Spot nodes and its class.

    Spot is always tolerated: the class, not the pod, decides whether a rung is Spot. GKE adds a
    toleration for the class on nodes that it creates, but not on manually created pools.
    `is_arm` is for nodes with Arm processors, whose taint keeps images of x86 away.
    """
    taints = catalogue_taints()
    accepted: list[Manifest] = [
        {"effect": "NoSchedule", "key": taints[kind]["key"], "operator": "Exists"}
        for kind in kinds
        if kind in taints
    ]
    if is_arm:
        accepted.append({"effect": "NoSchedule", "operator": "Equal", **taints["arm"]})
    spot = taints["spot"]
    accepted.append({"effect": "NoSchedule", "operator": "Equal", **spot})
    accepted.append(
        {
            "effect": "NoSchedule",
            "key": "cloud.google.com/compute-class",
            "operator": "Equal",
            "value": compute_class,
        }
    )
    return accepted


@dataclass(frozen=True)
class _Host:
    """What a container finds on a kind of node."""

    is_root: bool = False
    """Whether it is root and has the home of root: libtpu opens /dev/vfio."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


_HOSTS = {
    "tpu": _Host(is_root=True),
    "gpu": _Host(environment={**HOME_ENVIRONMENT, **DRIVER_ENVIRONMENT}),
    "cpu": _Host(environment=HOME_ENVIRONMENT),
}


def _container_security(kind: str) -> Manifest:
    if _HOSTS[kind].is_root:
        return {"allowPrivilegeEscalation": False}
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def pod_security(kind: str) -> Manifest:
    """Return the pod's user: root on TPU, otherwise unprivileged."""
    profile: Manifest = {"seccompProfile": {"type": "RuntimeDefault"}}
    if _HOSTS[kind].is_root:
        return {**profile, "runAsUser": 0}
    return {
        **profile,
        "fsGroup": _USER,
        "runAsGroup": _USER,
        "runAsNonRoot": True,
        "runAsUser": _USER,
    }


def scratch_volumes(kind: str, devices: int) -> list[Manifest]:
    """Returns what engines write to while they run: shared memory, and a home unless root's."""
    size = SHARED_MEMORY_GIB_PER_DEVICE * devices
    volumes: list[Manifest] = [
        {"emptyDir": {"medium": "Memory", "sizeLimit": f"{size}Gi"}, "name": "shared-memory"}
    ]
    if not _HOSTS[kind].is_root:
        volumes.append({"emptyDir": {"sizeLimit": "10Gi"}, "name": "home"})
    return volumes


def scratch_mounts(kind: str) -> list[Manifest]:
    """Returns the mounts of `scratch_volumes`."""
    mounts: list[Manifest] = [{"mountPath": "/dev/shm", "name": "shared-memory"}]  # noqa: S108
    if not _HOSTS[kind].is_root:
        mounts.append({"mountPath": _HOME, "name": "home"})
    return mounts
