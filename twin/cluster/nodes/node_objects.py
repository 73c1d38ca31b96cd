"""Node objects as GKE registers them: labels, taints, capacity, reserved resources.

Sources: rules `node.reserved`, `node.max-pods`, `node.arm.taint`;
docs.cloud.google.com/kubernetes-engine/docs pages on node sizes, TPUs, GPUs, spot VMs and
flex-start.
"""

import json
import zlib
from dataclasses import dataclass, field, replace

from gke_inference.catalogue.accelerators import catalogue_labels, catalogue_taints
from gke_inference.catalogue.machine_types import is_arm
from twin.cluster.nodes.interfaces import INTERFACES_ANNOTATION, Attachment, resources
from twin.wire.kube import JsonObject
from twin.world.machines import Machine, Provisioning, single_host_topology

CLASS_LABEL = "cloud.google.com/compute-class"
POOL_LABEL = "cloud.google.com/gke-nodepool"
TERMINATION_TAINT = "cloud.google.com/impending-node-termination"
STREAMING_LABEL = "cloud.google.com/gke-image-streaming"
RUNG_ANNOTATION = "gke-inference.dev/rung"
GROUP_ANNOTATION = "gke-inference.dev/group"
REQUEST_ANNOTATION = "gke-inference.dev/provisioning-request"
DRIVER_ANNOTATION = "gke-inference.dev/driver-installs"
"""Annotation of a GPU node with the devices (JSON) that it reports once its driver is installed."""
_EVICTION_MIB = 100
_MEMORY_TIERS_GIB = ((4, 0.25), (4, 0.20), (8, 0.10), (112, 0.06), (float("inf"), 0.02))
_CPU_TIERS = ((1, 0.06), (1, 0.01), (2, 0.005), (float("inf"), 0.0025))
_SHARED_CORE_RESERVED_M = 1060
_SSD_GIB = 375
DRIVER_DISABLED = "installation_disabled"
_PLUGIN_OFF = {
    "gpu": catalogue_labels()["no_gpu_plugin"],
    "tpu": catalogue_labels()["dra_tpu"],
}
"""Labels that turn off GKE's device plugin on the nodes of a pool (rule `dra.plugin-off`)."""


@dataclass(frozen=True)
class NodeShape:
    """Properties of a node, except its name and zone."""

    machine: Machine
    pool: str
    provisioning: Provisioning = "on-demand"
    compute_class: str | None = None
    topology: str | None = None
    reservation: str | None = None
    boot_disk_type: str = "pd-balanced"
    boot_disk_gib: int = 100
    image_type: str = "cos_containerd"
    labels: dict[str, str] = field(default_factory=dict[str, str])
    taints: tuple[tuple[str, str, str], ...] = ()
    """(key, value, effect) tuples, with effects as Kubernetes spells them."""
    max_pods: int = 110
    driver_version: str = "default"
    gpu_partition: str | None = None
    gpu_shared_clients: int = 1
    spot_taint: bool = False
    """Whether spot nodes have a taint: only in compute classes; other spot pools have the label."""
    auto_created: bool = False
    image_streaming: bool = False
    interfaces: tuple[Attachment, ...] = ()
    """VPC networks and subnets of the interfaces beside the first."""
    networks: tuple[str, ...] = ()
    """Networks of the cluster that those interfaces are on, where they are known."""
    placement: str | None = None
    """Placement policy of GPU nodes, by name; None if nothing places them close to each other."""

    def in_pool(self, pool: str) -> "NodeShape":
        """Return the same shape in another pool."""
        return replace(self, pool=pool)


def reserved_memory_mib(memory_gib: float) -> int:
    """Return the memory that GKE reserves on a machine, without the eviction threshold."""
    if memory_gib < 1:
        return 255
    left, kept = memory_gib, 0.0
    for size, share in _MEMORY_TIERS_GIB:
        part = min(left, size)
        kept += part * share
        left -= part
        if left <= 0:
            break
    return round(kept * 1024)


def reserved_cpu_millicores(machine: Machine) -> int:
    """Return the CPU that GKE reserves for the system on a machine."""
    if machine.name in {"e2-micro", "e2-small", "e2-medium"}:
        return _SHARED_CORE_RESERVED_M
    left, kept = float(machine.vcpus), 0.0
    for size, share in _CPU_TIERS:
        part = min(left, size)
        kept += part * share
        left -= part
        if left <= 0:
            break
    return round(kept * 1000)


def reserved_disk_gib(disk_gib: float) -> float:
    """Return the boot disk space that GKE reserves: eviction threshold (10 %) and system."""
    system = min(0.5 * disk_gib, 6 + 0.35 * disk_gib, 100.0)
    return 0.1 * disk_gib + system


def allocatable(shape: NodeShape) -> dict[str, str]:
    """Return a node's allocatable resources as Kubernetes quantities."""
    machine = shape.machine
    memory = machine.memory_gib * 1024 - reserved_memory_mib(machine.memory_gib) - _EVICTION_MIB
    cpu = machine.vcpus * 1000 - reserved_cpu_millicores(machine)
    if machine.local_ssds:
        disk = machine.local_ssds * _SSD_GIB * 0.9
    else:
        disk = shape.boot_disk_gib - reserved_disk_gib(shape.boot_disk_gib)
    return {
        "cpu": f"{cpu}m",
        "memory": f"{int(memory)}Mi",
        "ephemeral-storage": f"{int(disk * 1024)}Mi",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "pods": str(shape.max_pods),
        **_devices(shape),
        **resources(shape.networks),
    }


def capacity(shape: NodeShape) -> dict[str, str]:
    """Return a node's capacity as Kubernetes quantities."""
    machine = shape.machine
    disk = machine.local_ssds * _SSD_GIB if machine.local_ssds else shape.boot_disk_gib
    return {
        "cpu": str(machine.vcpus),
        "memory": f"{int(machine.memory_gib * 1024)}Mi",
        "ephemeral-storage": f"{int(disk * 1024)}Mi",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "pods": str(shape.max_pods),
        **_devices(shape),
        **resources(shape.networks),
    }


def _devices(shape: NodeShape) -> dict[str, str]:
    details = shape.machine.details
    if details is None or shape.labels.get(_PLUGIN_OFF[details.kind]) == "true":
        return {}
    count = shape.machine.chips
    if details.kind == "gpu":
        count *= shape.gpu_shared_clients
    return {details.resource: str(count)}


def installs_driver(shape: NodeShape) -> bool:
    """Return whether GKE installs a GPU driver on such a node, which then reports its GPUs."""
    details = shape.machine.details
    is_gpu = details is not None and details.kind == "gpu"
    return is_gpu and shape.driver_version != DRIVER_DISABLED and bool(_devices(shape))


def promised_devices(node: JsonObject) -> dict[str, str]:
    """Return the devices that a node reports once its driver is installed; none if it is."""
    annotations: dict[str, str] = node["metadata"].get("annotations") or {}
    return json.loads(annotations.get(DRIVER_ANNOTATION, "{}"))


def labels(shape: NodeShape, zone: str) -> dict[str, str]:
    """Return the labels that GKE sets on such a node, including the pool's own."""
    machine, region = shape.machine, zone.rpartition("-")[0]
    arm = is_arm(machine.family)
    spot = shape.provisioning == "spot"
    found = {
        "beta.kubernetes.io/arch": "arm64" if arm else "amd64",
        "beta.kubernetes.io/instance-type": machine.name,
        "beta.kubernetes.io/os": "linux",
        "cloud.google.com/gke-boot-disk": shape.boot_disk_type,
        "cloud.google.com/gke-container-runtime": "containerd",
        "cloud.google.com/gke-cpu-scaling-level": str(machine.vcpus),
        "cloud.google.com/gke-logging-variant": "DEFAULT",
        "cloud.google.com/gke-max-pods-per-node": str(shape.max_pods),
        "cloud.google.com/gke-memory-gb-scaling-level": str(int(machine.memory_gib)),
        POOL_LABEL: shape.pool,
        "cloud.google.com/gke-os-distribution": shape.image_type.lower().split("_")[0],
        "cloud.google.com/gke-provisioning": "spot" if spot else "standard",
        "cloud.google.com/gke-stack-type": "IPV4",
        "cloud.google.com/machine-family": machine.family,
        "failure-domain.beta.kubernetes.io/region": region,
        "failure-domain.beta.kubernetes.io/zone": zone,
        "kubernetes.io/arch": "arm64" if arm else "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": machine.name,
        "topology.gke.io/zone": zone,
        "topology.kubernetes.io/region": region,
        "topology.kubernetes.io/zone": zone,
    }
    if spot:
        found["cloud.google.com/gke-spot"] = "true"
    if shape.provisioning == "flex-start":
        found["cloud.google.com/gke-flex-start"] = "true"
    if shape.reservation is not None:
        found["cloud.google.com/reservation-name"] = shape.reservation.rpartition("/")[2]
        found["cloud.google.com/reservation-affinity"] = "specific"
    if shape.compute_class is not None:
        found[CLASS_LABEL] = shape.compute_class
    if shape.placement is not None:
        found[catalogue_labels()["placement_policy"]] = shape.placement
    if shape.auto_created:
        found["cloud.google.com/gke-nodepool-autoprovisioned"] = "true"
    if shape.image_streaming:
        found[STREAMING_LABEL] = "true"
    if machine.local_ssds:
        found["cloud.google.com/gke-ephemeral-storage-local-ssd"] = "true"
    return found | _accelerator_labels(shape) | shape.labels


def _accelerator_labels(shape: NodeShape) -> dict[str, str]:
    details = shape.machine.details
    if details is None:
        return {}
    count = str(shape.machine.chips)
    if details.kind == "tpu":
        topology = shape.topology or single_host_topology(shape.machine) or ""
        return {
            "cloud.google.com/gke-tpu-accelerator": details.gke_type,
            "cloud.google.com/gke-tpu-topology": topology,
            "cloud.google.com/gke-accelerator-count": count,
        }
    found = {
        "cloud.google.com/gke-accelerator": details.gke_type,
        "cloud.google.com/gke-accelerator-count": count,
        "cloud.google.com/gke-gpu": "true",
    }
    if shape.driver_version != DRIVER_DISABLED:
        found["cloud.google.com/gke-gpu-driver-version"] = shape.driver_version
    if shape.gpu_partition is not None:
        found["cloud.google.com/gke-gpu-partition-size"] = shape.gpu_partition
    return found


def taints(shape: NodeShape) -> list[dict[str, str]]:
    """Return the taints of such a node: first GKE's, then the pool's."""
    found: list[dict[str, str]] = []

    def add(key: str, value: str, effect: str = "NoSchedule") -> None:
        entry = {"key": key, "value": value, "effect": effect}
        if entry not in found:
            found.append(entry)

    details = shape.machine.details
    if details is not None:
        add(details.resource, "present")
    if is_arm(shape.machine.family):
        arm = catalogue_taints()["arm"]
        add(arm["key"], arm["value"])
    if shape.compute_class is not None:
        add(CLASS_LABEL, shape.compute_class)
    if shape.provisioning == "spot" and shape.spot_taint:
        add("cloud.google.com/gke-spot", "true")
    for key, value, effect in shape.taints:
        add(key, value, effect)
    return found


def node_name(cluster: str, pool: str, unique: str) -> str:
    """Return a node's name in GKE's style, at most 63 characters."""
    checksum = zlib.crc32(f"{cluster}/{pool}".encode()) & 0xFFFFFFFF
    return f"gke-{cluster[:16]}-{pool[:24]}-{checksum:08x}-{unique}"


def build(
    shape: NodeShape,
    *,
    name: str,
    zone: str,
    project: str,
    annotations: dict[str, str] | None = None,
    location: dict[str, str] | None = None,
    has_driver: bool = True,
) -> JsonObject:
    """Return the Node object; KWOK keeps it alive after its creation.

    Without its driver, it reports no devices (`GpuDrivers`). `location` are `location_labels`.
    """
    later = {} if has_driver else _devices(shape)
    promised = {DRIVER_ANNOTATION: json.dumps(later)} if later else {}
    wired = {INTERFACES_ANNOTATION: json.dumps(shape.interfaces)} if shape.interfaces else {}
    amounts = {
        field: {name: amount for name, amount in every.items() if name not in later}
        for field, every in (("capacity", capacity(shape)), ("allocatable", allocatable(shape)))
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {
                "kwok.x-k8s.io/node": "fake",
                "node.alpha.kubernetes.io/ttl": "0",
                "container.googleapis.com/instance_id": str(zlib.crc32(name.encode())),
                **promised,
                **wired,
                **(annotations or {}),
            },
            "labels": {"kubernetes.io/hostname": name, **labels(shape, zone), **(location or {})},
        },
        "spec": {
            "providerID": f"gce://{project}/{zone}/{name}",
            "taints": taints(shape),
        },
        "status": amounts,
    }
