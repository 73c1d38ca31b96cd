"""Argument blocks of an accelerator pool, built from its validated settings and its rung."""

from typing import cast

from pulumi_gcp import container

from gke_inference.catalogue.accelerators import catalogue_labels
from gke_inference.catalogue.rungs import Rung
from gke_inference.cluster.blocks import NODE_SCOPES, SHIELDED

from .compute_class_rules import NETWORK_PROFILE, has_image_cache
from .node_settings import LocalSsdUse, pool_blocks
from .pool_settings import RESERVED, AcceleratorPoolArgs, PoolSettings


def autoscaling(settings: PoolSettings) -> "container.NodePoolAutoscalingArgsDict":
    """Return the autoscaler's limits, with any zone that has chips."""
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
    settings: PoolSettings, args: AcceleratorPoolArgs
) -> "container.NodePoolNodeConfigArgsDict":
    """Return the node configuration."""
    rung = settings.rung
    config: container.NodePoolNodeConfigArgsDict = {
        "disk_size_gb": settings.boot_disk_gib,
        "gcfs_config": {"enabled": True},  # image streaming; the image cache needs it too
        "gvnic": {"enabled": True},
        "image_type": "COS_CONTAINERD",
        "labels": {**_node_labels(settings), **_device_labels(settings)},
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
    _use_local_ssds(config, settings)
    config.update(cast("container.NodePoolNodeConfigArgsDict", pool_blocks(settings.nodes)))
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


def _use_local_ssds(config: "container.NodePoolNodeConfigArgsDict", settings: PoolSettings) -> None:
    if not settings.local_ssds:
        return
    if settings.nodes is not None and settings.nodes.local_ssd_use is LocalSsdUse.BLOCK:
        config["local_nvme_ssd_block_config"] = {"local_ssd_count": settings.local_ssds}
    else:
        config["ephemeral_storage_local_ssd_config"] = {"local_ssd_count": settings.local_ssds}


def upgrades(settings: PoolSettings) -> "container.NodePoolUpgradeSettingsArgsDict":
    """Return the upgrade settings: surge, or blue-green."""
    given = settings.blue_green
    if given is None:
        return {
            "max_surge": settings.max_surge,
            "max_unavailable": settings.max_unavailable,
            "strategy": "SURGE",
        }
    return {
        "blue_green_settings": {
            "node_pool_soak_duration": f"{given.soak_seconds}s",
            "standard_rollout_policy": {
                "batch_node_count": given.batch_nodes,
                "batch_soak_duration": f"{given.batch_soak_seconds}s",
            },
        },
        "strategy": "BLUE_GREEN",
    }


def _buy(config: "container.NodePoolNodeConfigArgsDict", rung: Rung) -> None:
    """Add the consumption option to the node configuration."""
    if rung.provisioning in RESERVED:
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
    labels = _owner_labels(settings)
    if settings.rung.network == "rdma":
        labels[catalogue_labels()["network_driver"]] = "true"
    return labels


def _owner_labels(settings: PoolSettings) -> dict[str, str]:
    """Returns the labels that are taints, too: who may use the nodes."""
    keys = catalogue_labels()
    labels: dict[str, str] = {}
    if settings.compute_class is not None:
        labels[keys["compute_class"]] = settings.compute_class
    if settings.queued:
        labels[keys["queued"]] = "true"
    return labels


def network_config(settings: PoolSettings) -> "container.NodePoolNetworkConfigArgsDict":
    """Returns the nodes' networks: private, and with the accelerators' own where the rung says."""
    config: container.NodePoolNetworkConfigArgsDict = {
        "enable_private_nodes": not settings.public_nodes
    }
    if settings.rung.network == "rdma":
        config["accelerator_network_profile"] = NETWORK_PROFILE
    if settings.additional_networks:
        config["additional_node_network_configs"] = [
            {"network": each["network"], "subnetwork": each["subnetwork"]}
            for each in settings.additional_networks
        ]
    return config


def _device_labels(settings: PoolSettings) -> dict[str, str]:
    """Returns the labels by which GKE's device plugins leave the chips alone, and DRA has them."""
    if not settings.device_claims:
        return {}
    keys = catalogue_labels()
    names = ("dra_tpu",)
    if settings.rung.kind == "gpu":
        names = ("dra_gpu", "gpu_present", "no_gpu_plugin")
    return {keys[name]: "true" for name in names}


def _taints(settings: PoolSettings) -> "list[container.NodePoolNodeConfigTaintArgsDict]":
    return [
        {"effect": "NO_SCHEDULE", "key": key, "value": value}
        for key, value in sorted(_owner_labels(settings).items())
    ]
