"""The plain inputs of `AcceleratorPool`, checked, and the blocks that follow from the rung.

Rules by consumption option: docs.cloud.google.com/kubernetes-engine/docs/concepts/dws and
cluster-toolkit @1047080 modules/compute/gke-node-pool/main.tf.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi
from pulumi_gcp import container

from gke_inference.base.inputs import name_of, one_of, user_labels, whole
from gke_inference.catalogue.accelerators import accelerator, catalogue_labels, machine, region_of
from gke_inference.catalogue.rungs import Rung, checked_input
from gke_inference.cluster.blocks import NODE_SCOPES, SHIELDED

from .compute_class_rules import has_image_cache

if TYPE_CHECKING:
    from .accelerator_pool import AcceleratorPoolArgs

_DRIVERS = {"latest": "LATEST", "default": "DEFAULT", "disabled": "INSTALLATION_DISABLED"}
_RESERVED = ("reservation", "calendar")


@dataclass(frozen=True)
class PoolSettings:
    """What the user asked for, with every default filled in."""

    boot_disk_gib: int
    boot_disk_type: str | None
    compute_class: str | None
    gpu_driver: str
    initial_nodes: int
    labels: dict[str, str]
    local_ssds: int
    location: str
    max_nodes: int
    max_surge: int
    max_unavailable: int
    min_nodes: int
    pool_name: str
    public_nodes: bool
    queued: bool
    region: str
    rung: Rung
    slice_placement: str | None
    zones: tuple[str, ...]

    @property
    def node_locations(self) -> list[str] | None:
        """Zones to pin the pool to, where the cluster's own are not what is meant."""
        return list(self.zones) if self.zones not in ((), (self.location,)) else None

    @property
    def counts_per_zone(self) -> bool:
        """Whether limits are per zone.

        Totals fail for TPU and flex-start pools (cluster-toolkit modules/compute/gke-node-pool).
        """
        return self.rung.kind == "tpu" or self.rung.provisioning == "flex-start"


def pool_settings(args: "AcceleratorPoolArgs") -> PoolSettings:
    """Returns the checked settings.

    Raises:
        pulumi.InputPropertyError: One of them breaks a rule.
    """
    location = args["location"]
    is_zonal = location.count("-") == 2
    region = region_of(location) if is_zonal else location
    rung = checked_input(args["rung"], "rung", region=region)
    least, most = _node_range(args, rung)
    surge, unavailable = _upgrades(args)
    zones = _zones(rung, location, is_zonal)
    per_zone = rung.kind == "tpu" or rung.provisioning == "flex-start"
    chip = accelerator(rung.accelerator)
    return PoolSettings(
        boot_disk_gib=whole(args, "boot_disk_gib", 100, least=20, most=65_536),
        boot_disk_type=args.get("boot_disk_type") or rung.boot_disk_type,
        compute_class=_compute_class(args),
        gpu_driver=_gpu_driver(args, rung),
        initial_nodes=least if per_zone or len(zones) == 1 else 0,
        labels=user_labels(args, "accelerators"),
        local_ssds=machine(rung.accelerator, rung.machine_type).local_ssds,
        location=location,
        max_nodes=most,
        max_surge=surge,
        max_unavailable=unavailable,
        min_nodes=least,
        pool_name=name_of(args, "pool_name", "node_pool"),
        public_nodes=args.get("public_nodes", False),
        queued=_queued(args, rung),
        region=region,
        rung=rung,
        slice_placement=chip.slice_placement,
        zones=zones,
    )


def autoscaling(settings: PoolSettings) -> "container.NodePoolAutoscalingArgsDict":
    """Returns the autoscaler's limits; it takes whichever zone has chips."""
    if settings.counts_per_zone and not settings.queued:
        return {
            "location_policy": "ANY",
            "max_node_count": settings.max_nodes,
            "min_node_count": settings.min_nodes,
        }
    return {
        "location_policy": "ANY",
        "total_max_node_count": settings.max_nodes,
        "total_min_node_count": settings.min_nodes,
    }


def node_config(
    settings: PoolSettings, args: "AcceleratorPoolArgs"
) -> "container.NodePoolNodeConfigArgsDict":
    """Returns everything about the machines."""
    rung = settings.rung
    config: container.NodePoolNodeConfigArgsDict = {
        "disk_size_gb": settings.boot_disk_gib,
        "gcfs_config": {"enabled": True},  # image streaming; the image cache needs it too
        "gvnic": {"enabled": True},
        "image_type": "COS_CONTAINERD",
        "labels": _node_labels(settings),
        "machine_type": rung.machine_type,
        "metadata": {"disable-legacy-endpoints": "true"},
        "oauth_scopes": NODE_SCOPES,
        "resource_labels": settings.labels,
        "service_account": args["node_service_account"],
        "shielded_instance_config": SHIELDED,
        "taints": _taints(settings),
        "workload_metadata_config": {"mode": "GKE_METADATA"},
    }
    if settings.boot_disk_type is not None:
        config["disk_type"] = settings.boot_disk_type
    if "boot_disk_key" in args:
        config["boot_disk_kms_key"] = args["boot_disk_key"]
    if settings.local_ssds:
        config["ephemeral_storage_local_ssd_config"] = {"local_ssd_count": settings.local_ssds}
    if rung.kind == "gpu":
        config["guest_accelerators"] = [
            {
                "count": rung.chips_per_node,
                "gpu_driver_installation_config": {"gpu_driver_version": settings.gpu_driver},
                "type": rung.gke_type,
            }
        ]
    if "image_cache" in args and has_image_cache(rung):
        config["secondary_boot_disks"] = [
            {"disk_image": args["image_cache"], "mode": "CONTAINER_IMAGE_CACHE"}
        ]
    _buy(config, rung)
    return config


def _buy(config: "container.NodePoolNodeConfigArgsDict", rung: Rung) -> None:
    """Writes the consumption option into the machine's config."""
    if rung.provisioning in _RESERVED:
        shared = rung.reservation_project
        path = f"projects/{shared}/reservations/{rung.reservation}" if shared else rung.reservation
        config["reservation_affinity"] = {
            "consume_reservation_type": "SPECIFIC_RESERVATION",
            "key": "compute.googleapis.com/reservation-name",
            "values": [str(path)],
        }
        return
    if rung.provisioning in ("flex-start", "spot"):
        config["reservation_affinity"] = {"consume_reservation_type": "NO_RESERVATION"}
    if rung.provisioning == "spot":
        config["spot"] = True
    if rung.provisioning == "flex-start" and rung.max_run_hours is not None:
        config["flex_start"] = True
        config["max_run_duration"] = f"{rung.max_run_hours * 3600}s"


def _node_labels(settings: PoolSettings) -> dict[str, str]:
    keys = catalogue_labels()
    labels: dict[str, str] = {}
    if settings.compute_class is not None:
        labels[keys["compute_class"]] = settings.compute_class
    if settings.queued:
        labels[keys["queued"]] = "true"
    return labels


def _taints(settings: PoolSettings) -> "list[container.NodePoolNodeConfigTaintArgsDict]":
    return [
        {"effect": "NO_SCHEDULE", "key": key, "value": value}
        for key, value in sorted(_node_labels(settings).items())
    ]


def _node_range(args: "AcceleratorPoolArgs", rung: Rung) -> tuple[int, int]:
    least = whole(args, "min_nodes", 0, least=0, most=1000)
    if rung.is_slice:
        most = whole(args, "max_nodes", rung.hosts, least=rung.hosts, most=rung.hosts)
        if least not in (0, rung.hosts):
            raise pulumi.InputPropertyError(
                "minNodes",
                f"must be 0 or {rung.hosts}, the hosts of {rung.accelerator} {rung.topology}, "
                f"which come and go together, got {least}",
            )
    else:
        if args.get("max_nodes") is None:
            raise pulumi.InputPropertyError("maxNodes", "must be 1 to 1000, got none")
        most = whole(args, "max_nodes", 1, least=1, most=1000)
    if rung.provisioning == "flex-start" and least:
        raise pulumi.InputPropertyError("minNodes", f"must be 0 with flex-start, got {least}")
    if least > most:
        raise pulumi.InputPropertyError(
            "minNodes", f"must be at most maxNodes ({most}), got {least}"
        )
    return least, most


def _upgrades(args: "AcceleratorPoolArgs") -> tuple[int, int]:
    surge = whole(args, "max_surge", 0, least=0, most=20)
    unavailable = whole(args, "max_unavailable", 1, least=0, most=20)
    if not surge and not unavailable:
        raise pulumi.InputPropertyError(
            "maxUnavailable", "must be 1 or more where maxSurge is 0: nodes could not be upgraded"
        )
    return surge, unavailable


def _zones(rung: Rung, location: str, is_zonal: bool) -> tuple[str, ...]:
    """Returns the zones of the pool; empty is every zone of the cluster."""
    if rung.provisioning in _RESERVED:
        zones, field = rung.reservation_zones, "rung.reservationZones"
    else:
        zones, field = rung.zones, "rung.zones"
    if is_zonal and not zones:
        return (location,)
    if rung.provisioning in _RESERVED and not zones:
        raise pulumi.InputPropertyError(
            field, "must be the zones of the reservation in a regional cluster, got none"
        )
    if rung.is_slice and len(zones) != 1:
        raise pulumi.InputPropertyError(
            field, f"must be one zone, a slice is never in two, got {len(zones)}"
        )
    return tuple(sorted(zones))


def _compute_class(args: "AcceleratorPoolArgs") -> str | None:
    name = args.get("compute_class")
    if name is not None and name.startswith(("gke", "autopilot")):
        raise pulumi.InputPropertyError(
            "computeClass", f"must not begin with gke or autopilot, got {name!r}"
        )
    return name


def _gpu_driver(args: "AcceleratorPoolArgs", rung: Rung) -> str:
    driver = one_of(args, "gpu_driver", tuple(_DRIVERS), "latest")
    if rung.kind == "tpu" and args.get("gpu_driver") is not None:
        raise pulumi.InputPropertyError("gpuDriver", f"must be left out for {rung.accelerator}")
    return _DRIVERS[driver]


def _queued(args: "AcceleratorPoolArgs", rung: Rung) -> bool:
    queued = args.get("queued", False)
    if queued and rung.provisioning != "flex-start":
        raise pulumi.InputPropertyError(
            "queued", f"must be left out with {rung.provisioning}, it queues flex-start nodes"
        )
    return queued
