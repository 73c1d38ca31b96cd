"""The pod of a model server, as a pure function of its hardware, files and engine."""

from collections.abc import Sequence
from dataclasses import dataclass

from gke_inference.base.manifests import Manifest
from gke_inference.catalogue.accelerators import catalogue_taints
from gke_inference.catalogue.engines import engine
from gke_inference.catalogue.tracing import sampling_environment
from gke_inference.catalogue.versions import image
from gke_inference.intent.intent import ServingIntent
from gke_inference.serving.disaggregation import ROLE_LABEL, SETTLE_SECONDS, sidecar
from gke_inference.serving.disaggregation import environment as transfer_environment
from gke_inference.serving.disaggregation import port as engine_port
from gke_inference.serving.hardware import Hardware
from gke_inference.serving.launch import HEALTH_PORT, started
from gke_inference.serving.launcher.node import HOOK_SECONDS
from gke_inference.serving.launcher.spec import Serving
from gke_inference.serving.live_adapters import LiveAdapters, loader_container
from gke_inference.serving.weights import Storage

MODEL_LABEL = "gke-inference/model"
HARDWARE_LABEL = "gke-inference/hardware"
STARTUP_MINUTES = 30
"""How long an engine may load and compile before its container is restarted."""

_STARTUP_PERIOD_SECONDS = 10
_SETTLE_SECONDS = 15
_AFTER_DRAIN_SECONDS = 60
_SHARED_MEMORY_GIB_PER_DEVICE = 2
_AUTOPILOT_GRACE_SECONDS = 600

LONGEST_ON_AUTOPILOT_SECONDS = _AUTOPILOT_GRACE_SECONDS - SETTLE_SECONDS - _AFTER_DRAIN_SECONDS
"""Longest answer that a replica on Autopilot can finish when it must go: GKE gives a pod ten
minutes at a scale-down (docs.cloud.google.com/kubernetes-engine/docs/how-to/extended-duration-pods;
that Autopilot admits no longer grace is assumed)."""

_GPU_USER = 1000
_HOME = "/home/engine"

HOME_ENVIRONMENT = {"HOME": _HOME, "HF_HOME": f"{_HOME}/huggingface", "USER": "engine"}
"""The image's own user is root; another one needs a home for what engines cache at run time."""
DRIVER_ENVIRONMENT = {"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64:/usr/local/cuda/lib64"}
"""Where GKE mounts the NVIDIA driver; not every image looks there (accelerated-platforms
online-inference-gpu sets it too)."""


@dataclass(frozen=True)
class Pod:
    """What all pods of one model have in common."""

    intent: ServingIntent
    service_account: str
    live: LiveAdapters | None = None
    """Adapters that come while it serves."""

    @property
    def model(self) -> str:
        """Key of the model."""
        return self.intent.model

    @property
    def role(self) -> str | None:
        """`prefill` or `decode`, where the two are disaggregated."""
        return self.intent.role

    @property
    def longest_request_seconds(self) -> int:
        """How long it may finish what it answers."""
        return self.intent.longest_request_seconds

    @property
    def names(self) -> tuple[str, ...]:
        """Names served from the start, which no adapter that comes later may take."""
        return (self.intent.served_name, *sorted(self.intent.adapters))

    @property
    def environment(self) -> dict[str, str]:
        """Variables of every engine container: how spans are sampled, where it sends them."""
        percent = self.intent.trace_percent
        return {} if percent is None else sampling_environment(self.model, percent)

    @property
    def labels(self) -> dict[str, str]:
        """The labels an InferencePool selects, whatever hardware or role."""
        return {MODEL_LABEL: self.model}

    @property
    def own_labels(self) -> dict[str, str]:
        """The labels of the pods of this role."""
        return {**self.labels, **({ROLE_LABEL: self.role} if self.role else {})}

    @property
    def settle_seconds(self) -> int:
        """How long a pod that must go takes requests before it looks whether it is idle."""
        return SETTLE_SECONDS if self.role == "decode" else _SETTLE_SECONDS

    @property
    def settle_seconds_of_launcher(self) -> int:
        """The part that the launcher waits, which knows when a spot node has no time for it."""
        return self.settle_seconds - HOOK_SECONDS


def engine_pod(pod: Pod, node: Hardware, files: Storage, serving: Serving) -> Manifest:
    """Returns the pod template of a server on one kind of hardware.

    It asks for every chip of its node, so no second pod fits on it.
    """
    container = engine_container(pod, files, serving)
    # only vLLM's metrics name adapters, and only vLLM's adapters are loaded from outside
    is_alone = node.is_group or serving.engine != "vllm"
    amount = str(node.chips)
    container["resources"] = {
        "limits": {node.resource: amount},
        "requests": {**node.requests, node.resource: amount},
    }
    container["volumeMounts"] += _scratch_mounts(node.kind)
    return {
        "metadata": {
            "annotations": dict(files.annotations),
            "labels": template_labels(pod, node.kind),
        },
        "spec": {
            **pod_head(pod, node.compute_class),
            "containers": [container, *([] if is_alone else beside(pod, container))],
            **({"initContainers": [sidecar()]} if pod.role == "decode" else {}),
            "securityContext": _pod_security(node.kind),
            "tolerations": tolerations([node.kind], node.compute_class),
            "volumes": [*files.volumes, *_scratch_volumes(node.kind, node.devices_per_node)],
        },
    }


def beside(pod: Pod, engine: Manifest) -> list[Manifest]:
    """Returns what runs beside the engine.

    Not in a group of hosts, where a container that restarts ends its whole group, and not where
    prefill and decode are apart: their picker does not look at adapters.
    """
    given = list(pod.names[1:])
    if pod.live is None and (not given or pod.role is not None):
        return []
    return [loader_container(engine, pod.live, list(pod.names), given)]


def engine_container(
    pod: Pod, files: Storage, serving: Serving, options: Sequence[str] = ()
) -> Manifest:
    """Returns the engine's container without resources; `options` are more of the launcher's."""
    kind = serving.kind
    environment = {**files.environment, **_environment(kind), **pod.environment}
    container: Manifest = {
        "env": [
            *({"name": key, "value": value} for key, value in sorted(environment.items())),
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
        ],
        "securityContext": _container_security(kind),
        "volumeMounts": list(files.mounts),
        **probes(),
    }
    started(container, serving, options)
    for name, value in sorted(pod.intent.engine_env.items()):
        container["env"].append({"name": name, "value": value})
    return container


def health_port(port: int = HEALTH_PORT) -> Manifest:
    """Returns the declaration of a launcher's port."""
    return {"containerPort": port, "name": f"health-{port}"}


def probes(port: int = HEALTH_PORT) -> Manifest:
    """Returns the three probes: starting may take half an hour, serving may not pause.

    The kubelet counts the half hour from the container's start. A server that waits for its weights
    passes the startup probe, and its launcher counts from when they are there (`health.State`).
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
            "failureThreshold": STARTUP_MINUTES * 60 // _STARTUP_PERIOD_SECONDS,
            "periodSeconds": _STARTUP_PERIOD_SECONDS,
            "timeoutSeconds": 2,
        },
    }


def pod_head(pod: Pod, compute_class: str) -> Manifest:
    """Returns what is the same in every form: account, class, spread and grace."""
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
    """Returns the labels of a pod: those of the model, and which hardware it is for."""
    return {
        **pod.own_labels,
        HARDWARE_LABEL: hardware,
        "app.kubernetes.io/component": "model-server",
        "app.kubernetes.io/managed-by": "gke-inference",
        "app.kubernetes.io/name": pod.model,
    }


def tolerations(kinds: list[str], compute_class: str) -> list[Manifest]:
    """Returns the taints the pod accepts: its accelerators, spot nodes, and its class.

    Spot is always accepted: the class, not the pod, decides whether a rung is spot. GKE tolerates
    the class by itself on nodes it creates, but not on pools made by hand.
    """
    taints = catalogue_taints()
    accepted: list[Manifest] = [
        {"effect": "NoSchedule", "key": taints[kind]["key"], "operator": "Exists"} for kind in kinds
    ]
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


def _environment(kind: str) -> dict[str, str]:
    if kind == "tpu":
        return {}
    return {**HOME_ENVIRONMENT, **DRIVER_ENVIRONMENT}


def _container_security(kind: str) -> Manifest:
    if kind == "tpu":
        return {"allowPrivilegeEscalation": False}
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def _pod_security(kind: str) -> Manifest:
    """Returns the pod's user: unprivileged on GPU; libtpu opens /dev/vfio as root."""
    profile: Manifest = {"seccompProfile": {"type": "RuntimeDefault"}}
    if kind == "tpu":
        return {**profile, "runAsUser": 0}
    return {
        **profile,
        "fsGroup": _GPU_USER,
        "runAsGroup": _GPU_USER,
        "runAsNonRoot": True,
        "runAsUser": _GPU_USER,
    }


def _scratch_volumes(kind: str, devices: int) -> list[Manifest]:
    size = _SHARED_MEMORY_GIB_PER_DEVICE * devices
    volumes: list[Manifest] = [
        {"emptyDir": {"medium": "Memory", "sizeLimit": f"{size}Gi"}, "name": "shared-memory"}
    ]
    if kind == "gpu":
        volumes.append({"emptyDir": {"sizeLimit": "10Gi"}, "name": "home"})
    return volumes


def _scratch_mounts(kind: str) -> list[Manifest]:
    mounts: list[Manifest] = [{"mountPath": "/dev/shm", "name": "shared-memory"}]  # noqa: S108
    if kind == "gpu":
        mounts.append({"mountPath": _HOME, "name": "home"})
    return mounts
