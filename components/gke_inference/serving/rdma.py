"""RDMA between the nodes of a model: the claim of a pod, and the settings that its engine needs.

GKE's DRANET driver publishes the RDMA interfaces of a node as devices of the class
`mrdma.google.com`. A pod has only the interfaces that its claim was allocated
(docs.cloud.google.com/kubernetes-engine/docs/how-to/allocate-network-resources-dra). NCCL and UCX
use them through libibverbs. Registering memory locks more of it than the limit allows, so the
container needs IPC_LOCK. It also runs as root, because no other user gets capabilities (llm-d v0.4
guides/pd-disaggregation). Google's gIB plug-in for NCCL is not installed: it needs a hostPath
volume, which the Pod Security Standard forbids. Not tested on real machines.
"""

from gke_inference.base.manifests import Manifest, labels_for, manifest
from gke_inference.catalogue.accelerators import catalogue_labels
from gke_inference.serving.hardware import Hardware
from gke_inference.serving.pod_spec import Pod, model_pods_labels

DEVICE_CLASS = "mrdma.google.com"
CLAIM = "rdma"
"""Name of the claim in a pod, and of its request."""

ENVIRONMENT = {
    "GLOO_SOCKET_IFNAME": "eth0",
    "NCCL_SOCKET_IFNAME": "eth0",
    "UCX_IB_ROCE_REACHABILITY_MODE": "all",
}
"""Connections are set up over the pod's primary interface. Each RDMA interface has its own subnet,
and all of them can reach each other (llm-d guides/pd-disaggregation, overlay gke-rdma)."""

_DEEP_EP = {
    "NCCL_NET_PLUGIN": "",
    "NCCL_TUNER_PLUGIN": "none",
    "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME": "eth0",
    "NVSHMEM_DISABLED_GDRCOPY": "true",
    "NVSHMEM_IB_ENABLE_IBGDA": "true",
    "NVSHMEM_REMOTE_TRANSPORT": "ibgda",
    "VLLM_RANDOMIZE_DP_DUMMY_INPUTS": "1",
    "VLLM_SKIP_P2P_CHECK": "1",
}
"""Variables of llm-d's guide, without those that only its own image reads. The launcher adds the
interface of each GPU (`interfaces` of `workloads.engine`)."""
_PRIVILEGED_REASON = "gke-inference/privileged-because"
_WHY_PRIVILEGED = "DeepEP lets GPUs write to the RDMA interfaces directly"


def network_claims(name: str, namespace: str, node: Hardware) -> Manifest:
    """Return the claim template of a model's pods, which requests all RDMA interfaces of a node.

    Raises:
        ValueError: The machines have no RDMA.
    """
    return manifest(
        "resource_claim_template",
        name,
        namespace,
        labels=labels_for(name, "model-server"),
        spec={
            "spec": {
                "devices": {
                    "requests": [
                        {
                            "name": CLAIM,
                            "exactly": {
                                "allocationMode": "ExactCount",
                                "count": _interfaces(node),
                                "deviceClassName": DEVICE_CLASS,
                            },
                        }
                    ]
                }
            }
        },
    )


def close_together(term: Manifest, weight: int = 1) -> list[Manifest]:
    """Return preferences for nodes in the block and the sub-block of other pods.

    Preferences only: the autoscaler cannot know where Compute Engine will place a new node, so it
    would never create one for a pod that requires a block (llm-d guides/wide-ep-lws, overlay gke
    @2812018, prefers them as well).

    Args:
        term: Affinity term without its topology.
        weight: Weight of the sub-block, in addition to twice as much for the block.
    """
    keys = catalogue_labels()
    levels = {keys["topology_block"]: 2 * weight, keys["topology_subblock"]: weight}
    return [
        {"podAffinityTerm": {**term, "topologyKey": key}, "weight": amount}
        for key, amount in levels.items()
    ]


def with_rdma(template: Manifest, claims: str, pod: Pod) -> Manifest:
    """Return the pod template with the RDMA interfaces of the node added to its engine.

    Prefill and decode replicas prefer nodes close to those of the other role.

    Args:
        template: Pod template whose first container is the engine.
        claims: Name of the ResourceClaimTemplate.
        pod: Settings that all pods of the model share.
    """
    spec = template["spec"]
    spec["resourceClaims"] = [{"name": CLAIM, "resourceClaimTemplateName": claims}]
    spec["nodeSelector"] |= {catalogue_labels()["accelerator_network"]: "auto"}
    spec["securityContext"] = {
        "runAsUser": 0,
        "seccompProfile": spec["securityContext"]["seccompProfile"],
    }
    if pod.role is not None:
        others = {"labelSelector": {"matchLabels": model_pods_labels(pod)}}
        near = {"preferredDuringSchedulingIgnoredDuringExecution": close_together(others)}
        spec["affinity"] = {"podAffinity": near}
    engine = spec["containers"][0]
    engine["resources"]["claims"] = [{"name": CLAIM}]
    engine["securityContext"]["capabilities"] = {"add": ["IPC_LOCK"], "drop": ["ALL"]}
    present = {entry["name"] for entry in engine["env"]}  # the user's values take precedence
    engine["env"] += [
        {"name": key, "value": value}
        for key, value in sorted(ENVIRONMENT.items())
        if key not in present
    ]
    return template


def with_deep_ep(template: Manifest) -> Manifest:
    """Return the pod template with what DeepEP needs to send from GPU to GPU without the CPU.

    Its engine is privileged: GPUs write to the interfaces' doorbells, whose mapping no capability
    permits (llm-d guides/wide-ep-lws, overlay gke @2812018).
    """
    template["metadata"]["annotations"][_PRIVILEGED_REASON] = _WHY_PRIVILEGED
    engine = template["spec"]["containers"][0]
    engine["securityContext"] = {"privileged": True}
    present = {entry["name"] for entry in engine["env"]}
    engine["env"] += [
        {"name": key, "value": value}
        for key, value in sorted(_DEEP_EP.items())
        if key not in present
    ]
    return template


def _interfaces(node: Hardware) -> int:
    rung = node.rungs[0]
    network = rung.machine.network
    if network is None or network.technology != "rdma":
        raise ValueError(f"{rung.machine_type} has no RDMA")
    return network.nics
