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
    scratch_volumes,
    template_labels,
    tolerations,
)
from gke_inference.serving.startup import start_minutes
from gke_inference.serving.weights import Storage

WHOLE_NODE_LABEL = "gke-inference/whole-node"
_DRIVER: Manifest = {
    # a new node has no driver yet, and no folder for it
    "hostPath": {"path": "/home/kubernetes/bin/nvidia", "type": "DirectoryOrCreate"},
    "name": "nvidia-driver",
}
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
    check_pools(nodes, "in the dual-container form")
    containers = [_container(pod, nodes, files, serving[kind]) for kind in sorted(nodes)]
    template = two_engine_pod(pod, nodes, files, containers, [_DRIVER, *two_scratch("tpu", nodes)])
    template["metadata"]["annotations"]["gke-inference/privileged-because"] = _WHY_PRIVILEGED
    template["metadata"]["labels"][WHOLE_NODE_LABEL] = "true"
    template["spec"]["affinity"] = _alone_on_its_node()
    return template


def check_pools(nodes: dict[str, Hardware], form: str) -> None:
    """Reject rungs for whose pods GKE would have to create nodes.

    Args:
        nodes: Hardware by kind.
        form: How the message names the form, such as `in form dra`.

    Raises:
        InputError: A rung has no `node_pools`.
    """
    for node in nodes.values():
        for rung in node.rungs:
            if not rung.node_pools:
                raise InputError("rungs", f"must have 'node_pools' {form}", Bare(rung.label))


def two_engine_pod(
    pod: Pod,
    nodes: dict[str, Hardware],
    files: dict[str, Storage],
    containers: list[Manifest],
    volumes: list[Manifest],
) -> Manifest:
    """Return the pod template that both forms with two engines in a pod share.

    Args:
        pod: Settings that all pods of the model share.
        nodes: Hardware by kind.
        files: Weights and caches by kind.
        containers: The two engines.
        volumes: Volumes in addition to those of the files.
    """
    compute_class = nodes["tpu"].compute_class
    return {
        "metadata": {
            "annotations": {**files["gpu"].annotations, **files["tpu"].annotations},
            "labels": template_labels(pod, "any"),
        },
        "spec": {
            **pod_head(pod, compute_class),
            "containers": [*containers, *beside(pod, containers[0])],
            # for the containers beside the engines, too; privileged ones have no seccomp filter
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            "tolerations": tolerations(sorted(nodes), compute_class),
            "volumes": [*_merged(files["gpu"].volumes, files["tpu"].volumes), *volumes],
        },
    }


def two_scratch(kind: str, nodes: dict[str, Hardware]) -> list[Manifest]:
    """Return the volumes that engines of a kind write to, large enough for either node."""
    return scratch_volumes(kind, max(node.tensor_parallel for node in nodes.values()))


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
    pod: Pod, nodes: dict[str, Hardware], files: dict[str, Storage], serving: Serving
) -> Manifest:
    """Return one of a pod's two engine containers; it sleeps if the node lacks its hardware."""
    kind = serving.kind
    # Both launchers share the pod's network, so each has its own port and queries the other. A
    # sleeping container is ready while the other one is awake. If both sleep, neither is ready.
    ports = {each: HEALTH_PORT + at for at, each in enumerate(sorted(nodes))}
    port = ports.pop(kind)
    peers = [f"--peer-port={other}" for other in ports.values()]
    options = ("--or-sleep", f"--health-port={port}", *peers)
    container = engine_container(pod, files[kind], serving, options)
    container.update(probes(start_minutes(pod.intent, [serving]), port))
    container["name"] += f"-{kind}"
    if kind == "tpu":  # the pod exposes one port, whichever container listens on it
        del container["ports"][0]
    container["ports"][-1] = health_port(port)
    container["resources"] = {"requests": _half_of_the_smaller(nodes, files)}
    return container


def _container(
    pod: Pod, nodes: dict[str, Hardware], files: dict[str, Storage], serving: Serving
) -> Manifest:
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


def _half_of_the_smaller(nodes: dict[str, Hardware], files: dict[str, Storage]) -> dict[str, str]:
    cache_gib = max(each.cache_gib for each in files.values())  # the volume is in both
    requests = [node.requests(cache_gib) for node in nodes.values()]
    cpu = min(int(each["cpu"]) for each in requests)
    memory = min(int(each["memory"].removesuffix("Gi")) for each in requests)
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


def _merged(first: list[Manifest], second: list[Manifest]) -> list[Manifest]:
    """Return the volumes of two containers, without duplicate names."""
    names = {volume["name"] for volume in first}
    return [*first, *(volume for volume in second if volume["name"] not in names)]
