"""Rungs as `priorities` of a ComputeClass: the CRD's fields, and GKE's rules for them.

Source: schema `cloud.google.com/v1` ComputeClass as served by GKE, and google/skills
gke-compute-classes for the rules named below.
"""

from collections.abc import Iterable
from typing import Any

from gke_inference.base.manifests import SPOT_ONLY_REASON, Manifest, manifest
from gke_inference.catalogue.quotas import boot_disk
from gke_inference.catalogue.rungs import Rung

from .node_settings import NodeImage, NodeSettings, class_defaults

FLEX_LEAD_SECONDS = 3600
"""Lead time for requesting the replacement of a flex-start node before it ends."""

NETWORK_PROFILE = "auto"
"""GKE makes the networks of the accelerators' interfaces, and a subnet for each."""

_SECONDS_PER_HOUR = 3600


def class_object(
    name: str,
    rungs: list[Rung],
    *,
    image_disk: Any,
    is_moving_back: bool,
    max_pods_per_node: int,
    node_service_account: Any,
    when_unsatisfiable: str,
    boot_disk_key: Any = None,
    nodes: NodeSettings | None = None,
    placement_policy: Any = None,
    spot_only_reason: str | None = None,
) -> Manifest:
    """Return the ComputeClass.

    `whenUnsatisfiable` and `nodePoolAutoCreation` are always set: their defaults put pods on E2
    nodes, and create no pools. A class with only manually created pools has no auto-creation.
    """
    by_hand = is_made_by_hand(rungs)
    spec: Manifest = {
        "activeMigration": {"optimizeRulePriority": is_moving_back},
        "nodePoolAutoCreation": {"enabled": not by_hand},
        "priorities": [
            priority(rung, max_pods_per_node, image_disk, boot_disk_key, placement_policy)
            for rung in rungs
        ],
        "whenUnsatisfiable": when_unsatisfiable,
    }
    if not by_hand:
        is_ubuntu = nodes is not None and nodes.image is NodeImage.UBUNTU
        spec["nodePoolConfig"] = {
            "imageStreaming": {"enabled": not is_ubuntu},
            "serviceAccount": node_service_account,
        }
        if nodes is not None and nodes.image is not None:
            spec["nodePoolConfig"]["imageType"] = f"{nodes.image}_containerd"
        if defaults := class_defaults(nodes):
            spec["priorityDefaults"] = defaults
        if any(rung.network == "rdma" for rung in rungs):
            spec["nodePoolConfig"]["dra"] = {"networking": {"enabled": True}}
    return manifest(
        "compute_class",
        name,
        labels={
            "app.kubernetes.io/component": "compute-class",
            "app.kubernetes.io/managed-by": "gke-inference",
        },
        annotations=None if spot_only_reason is None else {SPOT_ONLY_REASON: spot_only_reason},
        spec=spec,
    )


def is_made_by_hand(rungs: list[Rung]) -> bool:
    """Return whether every rung names node pools, so that GKE creates none."""
    return all(rung.node_pools for rung in rungs)


def is_spot_only(rungs: Iterable[Rung]) -> bool:
    """Return whether every rung is Spot, so that one stock-out takes all capacity."""
    return all(rung.provisioning == "spot" for rung in rungs)


def priority(
    rung: Rung,
    max_pods_per_node: int,
    image_disk: Any,
    boot_disk_key: Any = None,
    placement_policy: Any = None,
) -> Manifest:
    """Return one entry of `priorities`."""
    if rung.node_pools:
        return {"nodepools": list(rung.node_pools)}
    rule: Manifest = {
        "machineType": rung.machine_type,
        "maxPodsPerNode": max_pods_per_node,
        **_shape(rung),
        **_provisioning(rung),
        **_location(rung),
    }
    storage: Manifest = {"bootDiskType": rung.boot_disk_type or boot_disk(rung.machine_type)[0]}
    if image_disk is not None and has_image_cache(rung):
        storage["secondaryBootDisks"] = [image_disk]
    if boot_disk_key is not None:
        storage["bootDiskKMSKey"] = boot_disk_key
    rule["storage"] = storage
    if rung.network == "rdma":
        rule["acceleratorNetworkProfile"] = NETWORK_PROFILE
    if rung.placement == "compact":
        rule["placement"] = {"policyName": placement_policy}
    return rule


def has_image_cache(rung: Rung) -> bool:
    """Return whether nodes of a rung support a secondary boot disk with images.

    This is not documented for TPU machines: the disk has the boot disk's type, a Persistent Disk
    (docs.cloud.google.com/kubernetes-engine/docs/how-to/data-container-image-preloading), but TPU
    machines boot only from Hyperdisk.
    """
    return rung.kind == "gpu"


def image_cache_disk(disk_image: str) -> Manifest:
    """Return the secondary boot disk for `projects/P/global/images/NAME` or a bare `NAME`.

    Raises:
        ValueError: The text is neither.
    """
    parts = disk_image.removeprefix("https://www.googleapis.com/compute/v1/").split("/")
    disk: Manifest = {"diskImageName": parts[-1], "mode": "CONTAINER_IMAGE_CACHE"}
    match parts:
        case ["projects", project, "global", "images", name] if project and name:
            disk["project"] = project
        case [name] if name:
            pass
        case _:
            raise ValueError(f"must be projects/P/global/images/NAME or NAME, got {disk_image!r}")
    return disk


def _shape(rung: Rung) -> Manifest:
    if rung.kind == "tpu":
        return {
            "tpu": {
                "count": rung.chips_per_node,
                "topology": rung.topology,
                "type": rung.gke_type,
            }
        }
    if not rung.chips:
        return {}  # the machine type says it all
    return {"gpu": {"count": rung.chips_per_node, "driverVersion": "latest", "type": rung.gke_type}}


def _provisioning(rung: Rung) -> Manifest:
    """Return the provisioning fields of a priority.

    Reservations are `Specific`: with `AnyBestEffort`, Compute Engine itself falls back to on-demand
    and skips the later rungs. Flex-start cannot be combined with Spot or reservations.
    """
    if rung.reservation is not None:
        reservation: Manifest = {"name": rung.reservation}
        if rung.reservation_project is not None:
            reservation["project"] = rung.reservation_project
        if rung.reservation_zones:
            reservation["zones"] = list(rung.reservation_zones)
        return {"reservations": {"affinity": "Specific", "specific": [reservation]}}
    if rung.max_run_hours is not None:
        return {
            "flexStart": {
                "enabled": True,
                "nodeRecycling": {"leadTimeSeconds": FLEX_LEAD_SECONDS},
            },
            "maxRunDurationSeconds": rung.max_run_hours * _SECONDS_PER_HOUR,
        }
    return {"spot": rung.provisioning == "spot"}


def _location(rung: Rung) -> Manifest:
    """Return the location fields of a priority.

    On-demand single hosts are spread over zones, because the default `ANY` may put all nodes into
    one zone. Scarce provisioning models, and slices, use any zone with capacity. Zones of a
    reservation are set in the reservation, because `Specific` with `location.zones` is rejected.
    """
    if rung.reservation is not None:
        return {}
    is_spread = rung.provisioning == "on-demand" and not rung.is_slice
    location: Manifest = {"locationPolicy": "BALANCED" if is_spread else "ANY"}
    if rung.zones:
        location["zones"] = list(rung.zones)
    return {"location": location}
