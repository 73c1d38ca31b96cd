"""Rungs as `priorities` of a ComputeClass: the CRD's fields, and GKE's rules between them.

Source: schema `cloud.google.com/v1` ComputeClass as served by GKE, and google/skills
gke-compute-classes for the rules named below.
"""

from typing import Any

from gke_inference.base.manifests import Manifest, manifest
from gke_inference.catalogue.quotas import boot_disk
from gke_inference.catalogue.rungs import Rung

MAX_RUNGS = 10
"""More rungs than this are not tried in useful time (google/skills)."""

FLEX_LEAD_SECONDS = 3600
"""How long before a flex-start node must end its replacement is asked for."""

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
) -> Manifest:
    """Returns the ComputeClass.

    `whenUnsatisfiable` and `nodePoolAutoCreation` are always written: their defaults put pods on
    E2 nodes, and create nothing. A class of hand-made pools only has no auto-creation.
    """
    by_hand = is_made_by_hand(rungs)
    spec: Manifest = {
        "activeMigration": {"optimizeRulePriority": is_moving_back},
        "nodePoolAutoCreation": {"enabled": not by_hand},
        "priorities": [
            priority(rung, max_pods_per_node, image_disk, boot_disk_key) for rung in rungs
        ],
        "whenUnsatisfiable": when_unsatisfiable,
    }
    if not by_hand:
        spec["nodePoolConfig"] = {
            "imageStreaming": {"enabled": True},
            "serviceAccount": node_service_account,
        }
    return manifest(
        "compute_class",
        name,
        labels={
            "app.kubernetes.io/component": "compute-class",
            "app.kubernetes.io/managed-by": "gke-inference",
        },
        spec=spec,
    )


def is_made_by_hand(rungs: list[Rung]) -> bool:
    """Returns whether every rung names pools, so that GKE creates none."""
    return all(rung.node_pools for rung in rungs)


def priority(
    rung: Rung, max_pods_per_node: int, image_disk: Any, boot_disk_key: Any = None
) -> Manifest:
    """Returns one entry of `priorities`."""
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
    return rule


def has_image_cache(rung: Rung) -> bool:
    """Returns whether nodes of a rung may have a second boot disk with images.

    Nobody shows one on a TPU machine: the disk is of the boot disk's type, as a Persistent Disk
    (docs.cloud.google.com/kubernetes-engine/docs/how-to/data-container-image-preloading), and TPU
    machines boot from Hyperdisk only.
    """
    return rung.kind != "tpu"


def image_cache_disk(disk_image: str) -> Manifest:
    """Returns the secondary boot disk for `projects/P/global/images/NAME` or a bare `NAME`.

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
    return {"gpu": {"count": rung.chips_per_node, "driverVersion": "latest", "type": rung.gke_type}}


def _provisioning(rung: Rung) -> Manifest:
    """Returns how the node is bought.

    A reservation is `Specific`: with `AnyBestEffort` Compute Engine itself falls through to
    on-demand and the rungs below are skipped. Flex-start goes with neither spot nor reservation.
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
    """Returns where to look.

    On-demand single hosts are spread over zones, because the default `ANY` may pack one; scarce
    ways to buy, and slices, take any zone that has them. The zones of a reservation are its own
    field: `Specific` together with `location.zones` is rejected.
    """
    if rung.reservation is not None:
        return {}
    is_spread = rung.provisioning == "on-demand" and not rung.is_slice
    location: Manifest = {"locationPolicy": "BALANCED" if is_spread else "ANY"}
    if rung.zones:
        location["zones"] = list(rung.zones)
    return {"location": location}
