"""Form `dual-container`: a TPU and a GPU server in one pod; the server with hardware serves.

The pod requests neither accelerator, because one pod cannot request either of two resources. Both
containers see the node's devices, and the container without its device sleeps. Drawbacks:

- Both containers are privileged, and the GPU driver is mounted from the node. The namespace must
  allow this; Autopilot does not.
- GKE cannot create nodes for the pod. The compute class lists manually created pools.
- Only anti-affinity keeps two such pods off one node.
- The component sets the variables that the TPU device plugin would set, so each pod supports one
  TPU generation.

GKE documents this as a recipe (GPU/TPU fungibility), not as a feature, and states that a TPU
stock-out can take hours to reach the GPU pool. `paired` has none of these drawbacks.
"""

from gke_inference.base.manifests import Manifest
from gke_inference.catalogue.accelerators import TPU_GENERATIONS
from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.intent.kv_offload import SHARED_MEMORY_GIB_PER_DEVICE
from gke_inference.serving.hardware import Hardware
from gke_inference.serving.launch import HEALTH_PORT
from gke_inference.serving.launcher.spec import Serving
from gke_inference.serving.pod_spec import (
    HOME_ENVIRONMENT,
    Pod,
    beside,
    engine_container,
    health_port,
    pod_head,
    probes,
    template_labels,
    tolerations,
)
from gke_inference.serving.weights import Storage

WHOLE_NODE_LABEL = "gke-inference/whole-node"
_WHY_PRIVILEGED = (
    "reads /dev/vfio and the NVIDIA driver of the node without asking for an accelerator"
)


def dual_container_pod(
    pod: Pod,
    nodes: dict[str, Hardware],
    files: dict[str, Storage],
    serving: dict[str, Serving],
) -> Manifest:
    """Return the pod template; each map has a `gpu` and a `tpu` entry.

    Raises:
        InputError: A rung has no `node_pools`, or the TPU generation is not supported.
    """
    for node in nodes.values():
        for rung in node.rungs:
            if not rung.node_pools:
                rule = "must have 'node_pools' in the dual-container form"
                raise InputError("rungs", rule, Bare(rung.label))
    compute_class = nodes["tpu"].compute_class
    containers = [_container(pod, nodes, files[kind], serving[kind]) for kind in sorted(nodes)]
    devices = max(node.tensor_parallel for node in nodes.values())
    return {
        "metadata": {
            "annotations": {
                **files["gpu"].annotations,
                **files["tpu"].annotations,
                "gke-inference/privileged-because": _WHY_PRIVILEGED,
            },
            "labels": {**template_labels(pod, "any"), WHOLE_NODE_LABEL: "true"},
        },
        "spec": {
            **pod_head(pod, compute_class),
            "affinity": _alone_on_its_node(),
            "containers": [*containers, *beside(pod, containers[0])],
            # for the containers beside the engines; privileged containers have no seccomp filter
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            "tolerations": tolerations(sorted(nodes), compute_class),
            "volumes": [
                *merged_volumes(files["gpu"].volumes, files["tpu"].volumes),
                {
                    # a new node has no driver yet, and no folder for it
                    "hostPath": {
                        "path": "/home/kubernetes/bin/nvidia",
                        "type": "DirectoryOrCreate",
                    },
                    "name": "nvidia-driver",
                },
                {
                    "emptyDir": {
                        "medium": "Memory",
                        "sizeLimit": f"{SHARED_MEMORY_GIB_PER_DEVICE * devices}Gi",
                    },
                    "name": "shared-memory",
                },
            ],
        },
    }


def tpu_environment(node: Hardware) -> list[Manifest]:
    """Return the variables that GKE's TPU device plugin would set, for one host.

    Raises:
        InputError: The TPU generation is not supported.
    """
    name = node.rungs[0].accelerator
    if name not in TPU_GENERATIONS:
        rule = f"must be one of {', '.join(sorted(TPU_GENERATIONS))} in the dual-container form"
        raise InputError("rungs", rule, Bare(name))
    topology = str(node.topology)
    bounds = ",".join([*topology.split("x"), "1"])
    fixed = {
        "CHIPS_PER_HOST_BOUNDS": bounds,
        "HOST_BOUNDS": "1,1,1",
        "TPU_ACCELERATOR_TYPE": f"{TPU_GENERATIONS[name]}-{node.chips}",
        "TPU_CHIPS_PER_HOST_BOUNDS": bounds,
        "TPU_HOST_BOUNDS": "1,1,1",
        "TPU_RUNTIME_METRICS_PORTS": "8431",
        "TPU_SKIP_MDS_QUERY": "true",
        "TPU_TOPOLOGY": topology,
        "TPU_TOPOLOGY_ALT": "false",
        "TPU_TOPOLOGY_WRAP": "false,false,false",
        "TPU_WORKER_HOSTNAMES": "localhost",
        "TPU_WORKER_ID": "0",
    }
    return [
        *({"name": key, "value": value} for key, value in fixed.items()),
        {"name": "NODE_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
        {"name": "VBAR_CONTROL_SERVICE_URL", "value": "$(NODE_IP):8353"},
    ]


def sleeping_container(
    pod: Pod, nodes: dict[str, Hardware], files: Storage, serving: Serving
) -> Manifest:
    """Return one of a pod's two engine containers; it sleeps if the node lacks its hardware."""
    kind = serving.kind
    # Both launchers share the pod's network, so each has its own port and queries the other. A
    # sleeping container is ready while the other one is awake. If both sleep, neither is ready.
    ports = {each: HEALTH_PORT + at for at, each in enumerate(sorted(nodes))}
    port = ports.pop(kind)
    peers = [f"--peer-port={other}" for other in ports.values()]
    options = ("--or-sleep", f"--health-port={port}", *peers)
    container = engine_container(pod, files, serving, options)
    container.update(probes(port))
    container["name"] += f"-{kind}"
    if kind == "tpu":  # the pod exposes one port, whichever container listens on it
        del container["ports"][0]
    container["ports"][-1] = health_port(port)
    container["resources"] = {"requests": _half_of_the_smaller(nodes)}
    return container


def _container(pod: Pod, nodes: dict[str, Hardware], files: Storage, serving: Serving) -> Manifest:
    kind = serving.kind
    container = sleeping_container(pod, nodes, files, serving)
    container["securityContext"] = {"privileged": True}
    # It runs as root with root's home, and does not get the variables for sampling spans.
    dropped = {*HOME_ENVIRONMENT, *pod.environment}
    container["env"] = [entry for entry in container["env"] if entry["name"] not in dropped]
    container["volumeMounts"].append({"mountPath": "/dev/shm", "name": "shared-memory"})  # noqa: S108
    if kind == "tpu":
        container["env"] += tpu_environment(nodes["tpu"])
    else:
        container["volumeMounts"].append(
            {"mountPath": "/usr/local/nvidia", "name": "nvidia-driver", "readOnly": True}
        )
    return container


def _half_of_the_smaller(nodes: dict[str, Hardware]) -> dict[str, str]:
    cpu = min(int(node.requests["cpu"]) for node in nodes.values())
    memory = min(int(node.requests["memory"].removesuffix("Gi")) for node in nodes.values())
    return {"cpu": str(max(1, cpu // 2)), "memory": f"{memory // 2}Gi"}


def _alone_on_its_node() -> Manifest:
    return {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "labelSelector": {"matchLabels": {WHOLE_NODE_LABEL: "true"}},
                    "namespaceSelector": {},
                    "topologyKey": "kubernetes.io/hostname",
                }
            ]
        }
    }


def merged_volumes(first: list[Manifest], second: list[Manifest]) -> list[Manifest]:
    """Return the volumes of two containers, without duplicate names."""
    names = {volume["name"] for volume in first}
    return [*first, *(volume for volume in second if volume["name"] not in names)]
