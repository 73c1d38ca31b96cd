"""Form `dra`: one pod claims the chips of its node as devices, from any of its rungs.

Unlike a resource request, a claim can list alternatives. The scheduler binds the pod to a node
whose devices satisfy the first alternative that any node can satisfy. No other pod can use those
devices. Both servers are in the pod, because an image supports one kind of chip. The server whose
chip was not claimed sleeps. Differences from `dual-container`:

- No container is privileged, and nothing is mounted from the node. The DRA drivers pass devices,
  libraries and variables to the containers.
- The claim keeps two pods off one node.
- The cluster needs the drivers (`DeviceDrivers`) and pools whose device plugins are off.

GKE supports less than for resource requests: no Autopilot, no automatically created node pools, one
host, and all chips of a TPU node or none. Google has published claims for several TPUs or several
GPUs. The API allows a claim for either kind, but no example of one on GKE is published.
"""

from gke_inference.base.manifests import Manifest, fingerprint, manifest
from gke_inference.catalogue.accelerators import TPU_GENERATIONS
from gke_inference.catalogue.rungs import Rung
from gke_inference.operators.device_drivers import DEVICE_CLASSES
from gke_inference.serving.dual_container import (
    check_pools,
    sleeping_container,
    two_engine_pod,
    two_scratch,
)
from gke_inference.serving.hardware import Hardware
from gke_inference.serving.launcher.spec import Serving
from gke_inference.serving.pod_spec import Pod, pod_security, scratch_mounts
from gke_inference.serving.weights import Storage

CLAIM = "accelerator"
"""Name of the claim in a pod, and of the request in the claim."""


def claiming_pod(
    pod: Pod,
    nodes: dict[str, Hardware],
    files: dict[str, Storage],
    serving: dict[str, Serving],
) -> Manifest:
    """Return the pod template; each map has a `gpu` and a `tpu` entry.

    Raises:
        InputError: A rung has no `node_pools`.
    """
    check_pools(nodes, "in form dra")
    containers = [_container(pod, nodes, files, serving[kind]) for kind in sorted(nodes)]
    template = two_engine_pod(pod, nodes, files, containers, two_scratch("gpu", nodes))
    spec = template["spec"]
    spec["resourceClaims"] = [{"name": CLAIM, "resourceClaimTemplateName": template_name(pod)}]
    spec["securityContext"]["fsGroup"] = pod_security("gpu")["fsGroup"]
    return template


def template_name(pod: Pod) -> str:
    """Return the name of the template of a pod's claim.

    The name contains a hash of the requests, because a template is immutable. Changed rungs result
    in a new template and a rollout.
    """
    return f"{pod.model}-devices-{fingerprint(_requests(pod))[:8]}"


def claim_template(pod: Pod, namespace: str) -> Manifest:
    """Return the template of a pod's claim, with one alternative per device, in rung order."""
    return manifest(
        "resource_claim_template",
        template_name(pod),
        namespace,
        labels=pod.own_labels,
        spec={"spec": {"devices": {"requests": _requests(pod)}}},
    )


def _requests(pod: Pod) -> list[Manifest]:
    alternatives = {found["name"]: found for found in map(_alternative, pod.intent.rungs.values())}
    return [{"firstAvailable": list(alternatives.values()), "name": CLAIM}]


def _alternative(rung: Rung) -> Manifest:
    """Return the alternative for a rung's node.

    It does not name the GPU model, because the pools of the compute class have only that model.
    """
    device_class = DEVICE_CLASSES[rung.kind]
    if rung.kind == "gpu":
        return {
            "allocationMode": "ExactCount",
            "count": rung.chips_per_node,
            "deviceClassName": device_class,
            "name": "gpu",
        }
    generation = TPU_GENERATIONS[rung.accelerator]
    selector = f'device.attributes["{device_class}"].tpuGen == "{generation}"'
    return {
        "allocationMode": "All",  # the driver allocates all chips of a node or none
        "deviceClassName": device_class,
        "name": rung.accelerator,
        "selectors": [{"cel": {"expression": selector}}],
    }


def _container(
    pod: Pod, nodes: dict[str, Hardware], files: dict[str, Storage], serving: Serving
) -> Manifest:
    kind = serving.kind
    container = sleeping_container(pod, nodes, files, serving)
    container["resources"]["claims"] = [{"name": CLAIM}]
    users = ("runAsGroup", "runAsNonRoot", "runAsUser")
    own = {key: value for key, value in pod_security(kind).items() if key in users}
    container["securityContext"] |= own
    container["volumeMounts"] += scratch_mounts(kind)
    return container
