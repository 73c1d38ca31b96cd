"""A node pool's inputs, as the gcp provider hands them on, turned into what its nodes are. Pure."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twin.cluster.base.fields import part, parts, text_map
from twin.cluster.nodes.node_objects import CLASS_LABEL, NodeShape
from twin.wire.kube import JsonObject
from twin.world.machines import Provisioning, machine, single_host_topology, slice_hosts

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
    """Machines of one TPU slice; 1 otherwise. A multi-host pool is one slice: all of it or none."""
    initial: int
    """Nodes per zone when the pool is created."""
    min_per_zone: int | None
    max_per_zone: int | None
    min_total: int | None
    max_total: int | None
    queued: bool = False
    """Whether its nodes come for a ProvisioningRequest alone."""
    digest: str | None = None
    """Of the file it was read from; the status repeats it, so that the provider knows which shape
    a status speaks of."""

    @property
    def autoscaled(self) -> bool:
        """Whether the autoscaler may change its size."""
        return self.max_per_zone is not None or self.max_total is not None

    def minimum(self) -> dict[str, int]:
        """Return the nodes it has at least, by zone."""
        if not self.autoscaled:
            return dict.fromkeys(self.zones, self._whole(self.initial))
        if self.min_per_zone is not None:
            return dict.fromkeys(self.zones, self._whole(self.min_per_zone))
        spread = _spread(self.min_total or 0, self.zones)
        return {zone: self._whole(count) for zone, count in spread.items()}

    def at_creation(self) -> dict[str, int]:
        """Return the nodes it is created with, by zone."""
        return {zone: self._whole(max(n, self.initial)) for zone, n in self.minimum().items()}

    def _whole(self, count: int) -> int:
        return -(-count // self.hosts) * self.hosts

    def may_grow(self, counts: dict[str, int], zone: str) -> bool:
        """Say whether another group of nodes fits under the limits."""
        if not self.autoscaled or self.queued or zone not in self.zones:
            return False
        if self.hosts > 1:
            return sum(counts.values()) == 0
        if self.max_per_zone is not None and counts.get(zone, 0) >= self.max_per_zone:
            return False
        return self.max_total is None or sum(counts.values()) < self.max_total

    def may_shrink(self, counts: dict[str, int], zone: str) -> bool:
        """Say whether a group of nodes of a zone may go."""
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
        data: inputs are the NodePool resource's, in camelCase.
        policy: finds a compute resource policy by name, for slices placed by a workload policy.

    Raises:
        ValueError: the machine type or the topology does not exist.
    """
    inputs: JsonObject = data["inputs"]
    shape, hosts = _shape(data["name"], inputs, _topology(inputs, policy))
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
    """Return what a pool's nodes look like, and of how many a slice is."""
    config: JsonObject = part(inputs, "nodeConfig")
    kind = machine(config.get("machineType") or "e2-medium")
    labels: dict[str, str] = text_map(config, "labels")
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
    provisioning, reservation = _provisioning(config)
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


def _provisioning(config: JsonObject) -> tuple[Provisioning, str | None]:
    if config.get("spot") or config.get("preemptible"):
        return "spot", None
    if config.get("flexStart"):
        return "flex-start", None
    affinity: JsonObject = part(config, "reservationAffinity")
    specific = affinity.get("consumeReservationType") == "SPECIFIC_RESERVATION"
    if specific and affinity.get("key") == _RESERVATION_KEY and affinity.get("values"):
        # shared: projects/P/reservations/NAME; block: NAME/reservationBlocks/B
        name = str(affinity["values"][0]).split("/reservationBlocks/")[0]
        return "reservation", name.rpartition("/")[2]
    return "on-demand", None
