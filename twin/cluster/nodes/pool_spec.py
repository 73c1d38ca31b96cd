"""Node pool specification, parsed from the inputs that the gcp provider passes on. Pure."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from twin.cluster.base.fields import part, parts, text_map
from twin.cluster.nodes.node_objects import CLASS_LABEL, NodeShape
from twin.wire.kube import JsonObject
from twin.world.machines import Provisioning, machine, single_host_topology, slice_hosts
from twin.world.node_networks import network_labels

_EFFECTS = {
    "NO_SCHEDULE": "NoSchedule",
    "PREFER_NO_SCHEDULE": "PreferNoSchedule",
    "NO_EXECUTE": "NoExecute",
}
_RESERVATION_KEY = "compute.googleapis.com/reservation-name"


@dataclass(frozen=True)
class PoolSpec:
    """One node pool."""

    name: str
    shape: NodeShape
    zones: tuple[str, ...]
    hosts: int
    """Machines of one TPU slice; 1 otherwise. A multi-host pool is one whole slice."""
    initial: int
    """Number of nodes per zone when the pool is created."""
    min_per_zone: int | None
    max_per_zone: int | None
    min_total: int | None
    max_total: int | None
    queued: bool = False
    """Whether its nodes are created only for a ProvisioningRequest."""
    digest: str | None = None
    """Digest of the pool's file. The status repeats it so that the provider knows which version of
    the pool a status is for."""

    @property
    def autoscaled(self) -> bool:
        """Whether the autoscaler may resize the pool."""
        return self.max_per_zone is not None or self.max_total is not None

    def minimum(self) -> dict[str, int]:
        """Return the minimum number of nodes by zone."""
        if not self.autoscaled:
            return dict.fromkeys(self.zones, self._whole(self.initial))
        if self.min_per_zone is not None:
            return dict.fromkeys(self.zones, self._whole(self.min_per_zone))
        spread = _spread(self.min_total or 0, self.zones)
        return {zone: self._whole(count) for zone, count in spread.items()}

    def at_creation(self) -> dict[str, int]:
        """Return the initial number of nodes by zone."""
        return {zone: self._whole(max(n, self.initial)) for zone, n in self.minimum().items()}

    def _whole(self, count: int) -> int:
        return -(-count // self.hosts) * self.hosts

    def may_grow(self, counts: dict[str, int], zone: str) -> bool:
        """Return whether the limits allow another group of nodes."""
        if not self.autoscaled or self.queued or zone not in self.zones:
            return False
        if self.hosts > 1:
            return sum(counts.values()) == 0
        if self.max_per_zone is not None and counts.get(zone, 0) >= self.max_per_zone:
            return False
        return self.max_total is None or sum(counts.values()) < self.max_total

    def may_shrink(self, counts: dict[str, int], zone: str) -> bool:
        """Return whether a group of nodes in a zone may be removed."""
        if not self.autoscaled:
            return False
        if self.min_total is not None:
            return sum(counts.values()) - self.hosts >= self.min_total
        return counts.get(zone, 0) - self.hosts >= (self.min_per_zone or 0)


def _spread(total: int, zones: tuple[str, ...]) -> dict[str, int]:
    base, rest = divmod(total, len(zones))
    return {zone: base + (index < rest) for index, zone in enumerate(zones)}


def _no_policy(name: str) -> JsonObject | None:
    del name
    return None


def load(file: Path, policy: Callable[[str], JsonObject | None] = _no_policy) -> PoolSpec:
    """Read a pool's file; see `parse`."""
    return parse(json.loads(file.read_text()), policy)


def parse(data: JsonObject, policy: Callable[[str], JsonObject | None] = _no_policy) -> PoolSpec:
    """Return the pool described by {"name", "inputs", "zones"} and a "digest" of them.

    Args:
        data: Description of the pool, with the inputs of the NodePool resource in camelCase.
        policy: Function that returns a compute resource policy by name, for slices that a workload
            policy places.

    Raises:
        ValueError: The machine type or the topology does not exist.
    """
    inputs: JsonObject = data["inputs"]
    shape, hosts = _shape(data["name"], inputs, _topology(inputs, policy))
    shape = replace(shape, placement=_placement(data["name"], inputs, shape.topology))
    autoscaling: JsonObject = part(inputs, "autoscaling")
    zones: tuple[str, ...] = tuple(data["zones"])
    return PoolSpec(
        name=data["name"],
        shape=shape,
        zones=zones,
        hosts=hosts,
        initial=_initial(inputs, autoscaling, hosts),
        min_per_zone=_number(autoscaling, "minNodeCount"),
        max_per_zone=_number(autoscaling, "maxNodeCount"),
        min_total=_number(autoscaling, "totalMinNodeCount"),
        max_total=_number(autoscaling, "totalMaxNodeCount"),
        queued=bool(part(inputs, "queuedProvisioning").get("enabled")),
        digest=data.get("digest"),
    )


def _shape(name: str, inputs: JsonObject, topology: str | None) -> tuple[NodeShape, int]:
    """Return the shape of a pool's nodes, and the number of nodes in a slice."""
    config: JsonObject = part(inputs, "nodeConfig")
    kind = machine(config.get("machineType") or "e2-medium")
    profile = part(inputs, "networkConfig").get("acceleratorNetworkProfile")
    labels: dict[str, str] = text_map(config, "labels") | network_labels(profile, has_driver=False)
    accelerators: list[JsonObject] = parts(config, "guestAccelerators")
    gpu: JsonObject = accelerators[0] if accelerators else {}
    driver: JsonObject = part(gpu, "gpuDriverInstallationConfig")
    sharing: JsonObject = part(gpu, "gpuSharingConfig")
    taints = tuple(
        (
            str(item["key"]),
            str(item.get("value", "")),
            _EFFECTS.get(str(item["effect"]), str(item["effect"])),
        )
        for item in parts(config, "taints")
    )
    provisioning, reservation = _provisioning(config, inputs.get("project"))
    shape = NodeShape(
        machine=kind,
        pool=name,
        provisioning=provisioning,
        compute_class=labels.pop(CLASS_LABEL, None),
        topology=topology or single_host_topology(kind),
        reservation=reservation,
        boot_disk_type=str(config.get("diskType") or "pd-balanced"),
        boot_disk_gib=int(config.get("diskSizeGb") or 100),
        image_type=str(config.get("imageType") or "COS_CONTAINERD"),
        labels=labels,
        taints=taints,
        max_pods=int(inputs.get("maxPodsPerNode") or 110),
        driver_version=str(driver.get("gpuDriverVersion") or "DEFAULT").lower(),
        gpu_partition=gpu.get("gpuPartitionSize"),
        gpu_shared_clients=int(sharing.get("maxSharedClientsPerGpu") or 1),
        image_streaming=bool(part(config, "gcfsConfig").get("enabled")),
        interfaces=tuple(
            (str(each["network"]).rpartition("/")[2], str(each["subnetwork"]).rpartition("/")[2])
            for each in parts(part(inputs, "networkConfig"), "additionalNodeNetworkConfigs")
        ),
    )
    return shape, slice_hosts(kind, topology)


def _number(source: dict[str, Any], key: str) -> int | None:
    value = source.get(key)
    return None if value is None else int(value)


def _initial(inputs: JsonObject, autoscaling: JsonObject, hosts: int) -> int:
    for key in ("nodeCount", "initialNodeCount"):
        count = _number(inputs, key)
        if count is not None:
            return count
    if autoscaling:
        return _number(autoscaling, "minNodeCount") or 0
    return hosts


def _topology(inputs: JsonObject, policy: Callable[[str], JsonObject | None]) -> str | None:
    placement: JsonObject = part(inputs, "placementPolicy")
    if placement.get("tpuTopology"):
        return str(placement["tpuTopology"])
    if placement.get("policyName"):
        found = policy(str(placement["policyName"])) or {}
        workload: JsonObject = part(found, "workloadPolicy")
        if workload.get("acceleratorTopology"):
            return str(workload["acceleratorTopology"])
    return None


def _placement(pool: str, inputs: JsonObject, topology: str | None) -> str | None:
    """Return the placement policy of GPU nodes; GKE makes one for a pool that names none."""
    placement: JsonObject = part(inputs, "placementPolicy")
    if topology is not None or placement.get("type") != "COMPACT":
        return None
    return str(placement.get("policyName") or pool).rpartition("/")[2]


def _provisioning(config: JsonObject, own: str | None) -> tuple[Provisioning, str | None]:
    """Return how a pool's nodes are provisioned, and their reservation as `capacity.yaml` names it.

    Args:
        config: Node configuration.
        own: Project of the pool.
    """
    if config.get("spot") or config.get("preemptible"):
        return "spot", None
    if config.get("flexStart"):
        return "flex-start", None
    affinity: JsonObject = part(config, "reservationAffinity")
    specific = affinity.get("consumeReservationType") == "SPECIFIC_RESERVATION"
    if specific and affinity.get("key") == _RESERVATION_KEY and affinity.get("values"):
        # shared: projects/P/reservations/NAME; block: NAME/reservationBlocks/B
        name = str(affinity["values"][0]).split("/reservationBlocks/")[0]
        return "reservation", name.removeprefix(f"projects/{own}/reservations/")
    return "on-demand", None
