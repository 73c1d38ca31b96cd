from typing import Any

import pulumi
import pulumi_gcp
import pytest

from gke_inference import AcceleratorPool

POOL = "gcp:container/nodePool:NodePool"
V6E = {"accelerator": "tpu-v6e", "topology": "2x2", "provisioning": "on-demand"}
L4 = {"accelerator": "nvidia-l4", "count": 1, "provisioning": "on-demand"}
SLICE = {**V6E, "topology": "4x4", "zones": ["us-east5-b"]}
ARGS = {
    "cluster": "prod",
    "location": "us-east5",
    "max_nodes": 4,
    "node_service_account": "nodes@acme.iam.gserviceaccount.com",
    "pool_name": "v6e-2x2",
    "project": "acme",
    "rung": V6E,
}
L4_ARGS = {**ARGS, "location": "us-central1", "pool_name": "l4", "rung": L4}


def made(args: Any, opts: pulumi.ResourceOptions | None = None) -> AcceleratorPool:
    return AcceleratorPool("pool", args, opts)


def run(recorder, args, opts=None):
    def program():
        pool = made(args, opts)
        return pulumi.Output.all(pool.pool_name, pool.machine_type, pool.chips_per_node)

    return recorder.run(program)


def config_of(recorder, args):
    run(recorder, args)
    return recorder.one(POOL).inputs["nodeConfig"]


def test_a_tpu_pool_has_its_machine_and_tells_what_a_pod_asks_for(recorder):
    assert run(recorder, ARGS) == ["v6e-2x2", "ct6e-standard-4t", 4]
    assert recorder.counts() == {"AcceleratorPool": 1, "NodePool": 1}
    inputs = recorder.one(POOL).inputs
    assert inputs["cluster"] == "prod"
    assert inputs["location"] == "us-east5"
    assert inputs["autoscaling"] == {
        "locationPolicy": "ANY",
        "maxNodeCount": 4,
        "minNodeCount": 0,
    }
    assert inputs["initialNodeCount"] == 0
    assert inputs["management"] == {"autoRepair": True, "autoUpgrade": True}
    assert inputs["upgradeSettings"] == {
        "maxSurge": 0,
        "maxUnavailable": 1,
        "strategy": "SURGE",
    }
    assert "placementPolicy" not in inputs
    assert "nodeLocations" not in inputs


def test_nodes_are_private_shielded_and_stream_their_images(recorder):
    run(recorder, ARGS)
    inputs = recorder.one(POOL).inputs
    config = inputs["nodeConfig"]
    assert inputs["networkConfig"] == {"enablePrivateNodes": True}
    assert config["shieldedInstanceConfig"] == {
        "enableIntegrityMonitoring": True,
        "enableSecureBoot": True,
    }
    assert config["gvnic"] == {"enabled": True}
    assert config["gcfsConfig"] == {"enabled": True}
    assert config["workloadMetadataConfig"] == {"mode": "GKE_METADATA"}
    assert config["serviceAccount"] == "nodes@acme.iam.gserviceaccount.com"
    assert "guestAccelerators" not in config
    assert "reservationAffinity" not in config


def test_a_gpu_pool_carries_its_gpus_and_their_driver(recorder):
    config = config_of(recorder, {**L4_ARGS, "gpu_driver": "default"})
    assert config["guestAccelerators"] == [
        {
            "count": 1,
            "gpuDriverInstallationConfig": {"gpuDriverVersion": "DEFAULT"},
            "type": "nvidia-l4",
        }
    ]
    assert recorder.one(POOL).inputs["autoscaling"] == {
        "locationPolicy": "ANY",
        "totalMaxNodeCount": 4,
        "totalMinNodeCount": 0,
    }


def test_a_machine_with_local_ssds_uses_them_as_scratch(recorder):
    rung = {"accelerator": "nvidia-h100-80gb", "count": 8, "provisioning": "on-demand"}
    config = config_of(recorder, {**L4_ARGS, "rung": rung})
    assert config["ephemeralStorageLocalSsdConfig"] == {"localSsdCount": 16}


def test_a_slice_over_several_hosts_is_all_of_them_in_one_zone(recorder):
    args = {key: value for key, value in ARGS.items() if key != "max_nodes"}
    run(recorder, {**args, "rung": SLICE, "min_nodes": 4})
    inputs = recorder.one(POOL).inputs
    assert inputs["placementPolicy"] == {"tpuTopology": "4x4", "type": "COMPACT"}
    assert inputs["autoscaling"] == {
        "locationPolicy": "ANY",
        "maxNodeCount": 4,
        "minNodeCount": 4,
    }
    assert inputs["initialNodeCount"] == 4
    assert inputs["nodeLocations"] == ["us-east5-b"]


def test_a_tpu7x_slice_is_placed_by_a_workload_policy(recorder):
    rung = {**V6E, "accelerator": "tpu7x", "topology": "2x2x2", "zones": ["us-central1-c"]}
    run(recorder, {**ARGS, "location": "us-central1", "max_nodes": 2, "rung": rung})
    policy = recorder.one("gcp:compute/resourcePolicy:ResourcePolicy")
    assert policy.name == "pool-slice"
    assert policy.inputs["region"] == "us-central1"
    assert policy.inputs["workloadPolicy"] == {
        "acceleratorTopology": "2x2x2",
        "type": "HIGH_THROUGHPUT",
    }
    assert recorder.one(POOL).inputs["placementPolicy"] == {
        "policyName": "pool-slice",
        "type": "COMPACT",
    }


def test_a_reservation_is_taken_by_name_in_its_zones(recorder):
    rung = {
        **V6E,
        "provisioning": "reservation",
        "reservation": "v6e-prod",
        "reservation_zones": ["us-east5-c"],
    }
    config = config_of(recorder, {**ARGS, "rung": rung})
    assert config["reservationAffinity"] == {
        "consumeReservationType": "SPECIFIC_RESERVATION",
        "key": "compute.googleapis.com/reservation-name",
        "values": ["v6e-prod"],
    }
    assert recorder.one(POOL).inputs["nodeLocations"] == ["us-east5-c"]


def test_a_shared_reservation_is_named_with_its_project(recorder):
    rung = {
        **V6E,
        "provisioning": "calendar",
        "reservation": "load-test",
        "reservation_project": "acme-shared",
        "reservation_zones": ["us-east5-b"],
    }
    affinity = config_of(recorder, {**ARGS, "rung": rung})["reservationAffinity"]
    assert affinity["values"] == ["projects/acme-shared/reservations/load-test"]


def test_spot_touches_no_reservation(recorder):
    config = config_of(recorder, {**ARGS, "rung": {**V6E, "provisioning": "spot"}})
    assert config["spot"] is True
    assert config["reservationAffinity"] == {"consumeReservationType": "NO_RESERVATION"}
    assert "flexStart" not in config


def test_flex_start_ends_after_its_time_and_is_not_repaired(recorder):
    rung = {**V6E, "provisioning": "flex-start", "max_run_hours": 24}
    config = config_of(recorder, {**ARGS, "rung": rung})
    assert config["flexStart"] is True
    assert config["maxRunDuration"] == "86400s"
    assert config["reservationAffinity"] == {"consumeReservationType": "NO_RESERVATION"}
    assert "spot" not in config
    assert recorder.one(POOL).inputs["management"] == {"autoRepair": False, "autoUpgrade": True}


def test_a_queued_pool_waits_for_provisioning_requests(recorder):
    rung = {**L4, "provisioning": "flex-start"}
    config = config_of(recorder, {**L4_ARGS, "rung": rung, "queued": True})
    inputs = recorder.one(POOL).inputs
    assert inputs["queuedProvisioning"] == {"enabled": True}
    assert inputs["autoscaling"]["totalMinNodeCount"] == 0
    assert config["labels"] == {"cloud.google.com/gke-queued": "true"}
    assert config["taints"] == [
        {"effect": "NO_SCHEDULE", "key": "cloud.google.com/gke-queued", "value": "true"}
    ]


def test_a_pool_joins_a_compute_class_by_label_and_taint(recorder):
    config = config_of(recorder, {**ARGS, "compute_class": "chat-tpu"})
    assert config["labels"] == {"cloud.google.com/compute-class": "chat-tpu"}
    assert config["taints"] == [
        {
            "effect": "NO_SCHEDULE",
            "key": "cloud.google.com/compute-class",
            "value": "chat-tpu",
        }
    ]


def test_a_pool_starts_with_container_images_on_its_disk(recorder):
    image = "projects/acme/global/images/vllm"
    l4 = {"accelerator": "nvidia-l4", "count": 1, "provisioning": "spot"}
    config = config_of(recorder, {**ARGS, "location": "us-east1", "rung": l4, "image_cache": image})
    assert config["secondaryBootDisks"] == [{"diskImage": image, "mode": "CONTAINER_IMAGE_CACHE"}]


def test_a_tpu_pool_starts_without_the_disk_of_images(recorder):
    image = "projects/acme/global/images/vllm"
    assert "secondaryBootDisks" not in config_of(recorder, {**ARGS, "image_cache": image})


def test_a_zonal_cluster_has_its_pool_in_its_zone(recorder):
    args = {key: value for key, value in ARGS.items() if key != "max_nodes"}
    rung = {**V6E, "topology": "4x4"}
    run(recorder, {**args, "location": "us-east5-b", "rung": rung})
    inputs = recorder.one(POOL).inputs
    assert inputs["location"] == "us-east5-b"
    assert "nodeLocations" not in inputs


def test_the_autoscaler_owns_the_count(recorder):
    run(recorder, ARGS)
    assert recorder.one(POOL).ignored == ("initialNodeCount", "nodeConfig.resourceLabels")


def test_the_pool_belongs_to_the_component_and_takes_its_provider(recorder):
    def program():
        provider = pulumi_gcp.Provider("elsewhere", project="other")
        pool = made(ARGS, pulumi.ResourceOptions(providers=[provider]))
        return pool.pool_name

    recorder.run(program)
    pool = recorder.one(POOL)
    assert pool.parent.endswith("gke-inference:index:AcceleratorPool::pool")
    assert "elsewhere" in pool.provider


REFUSED = {
    "no limit": (
        {key: value for key, value in ARGS.items() if key != "max_nodes"},
        "maxNodes",
        "must be 1 to 1000, got none",
    ),
    "no nodes at all": ({**ARGS, "max_nodes": 0}, "maxNodes", "must be 1 to 1000, got 0"),
    "limits swapped": (
        {**ARGS, "min_nodes": 5},
        "minNodes",
        "must be at most max_nodes (4), got 5",
    ),
    "half a slice": (
        {**ARGS, "rung": SLICE, "min_nodes": 2},
        "minNodes",
        "must be 0 or 4, the hosts of tpu-v6e 4x4",
    ),
    "two slices": (
        {**ARGS, "rung": SLICE, "max_nodes": 8},
        "maxNodes",
        "must be 4, the hosts of tpu-v6e 4x4",
    ),
    "a slice in any zone": (
        {**ARGS, "rung": {**V6E, "topology": "4x4"}},
        "rung.zones",
        "must be one zone: a slice never spans zones, got 0",
    ),
    "a reservation in any zone": (
        {**ARGS, "rung": {**V6E, "provisioning": "reservation", "reservation": "r"}},
        "rung.reservationZones",
        "must be the zones of the reservation in a regional cluster",
    ),
    "flex-start that is never zero": (
        {**ARGS, "rung": {**V6E, "provisioning": "flex-start"}, "min_nodes": 1},
        "minNodes",
        "must be 0 with flex-start, got 1",
    ),
    "a queue without flex-start": (
        {**ARGS, "queued": True},
        "queued",
        "must be false with on-demand: only flex-start",
    ),
    "a class of Google's": (
        {**ARGS, "compute_class": "gke-fast"},
        "computeClass",
        "must not begin with gke or autopilot",
    ),
    "a driver for a tpu": (
        {**ARGS, "gpu_driver": "latest"},
        "gpuDriver",
        "must not be set for tpu-v6e",
    ),
    "a driver that does not exist": (
        {**L4_ARGS, "gpu_driver": "newest"},
        "gpuDriver",
        "must be one of latest",
    ),
    "a disk that is too small": (
        {**ARGS, "boot_disk_gib": 10},
        "bootDiskGib",
        "must be 20 to 65536, got 10",
    ),
    "a name that is too long": (
        {**ARGS, "pool_name": "p" * 41},
        "poolName",
        "1 to 40 characters for a node pool",
    ),
    "a topology that does not exist": (
        {**ARGS, "rung": {**V6E, "topology": "3x3"}},
        "rung.topology",
        "must be a topology of tpu-v6e",
    ),
    "a chip the region does not have": (
        {**ARGS, "rung": L4},
        "rung.accelerator",
        "must be offered in us-east5, got nvidia-l4",
    ),
}


@pytest.mark.parametrize(("args", "path", "words"), REFUSED.values(), ids=REFUSED)
def test_a_broken_rule_is_refused(recorder, args, path, words):
    with pytest.raises(pulumi.InputPropertyError) as refused:
        run(recorder, args)
    assert refused.value.property_path == path
    assert words in refused.value.reason
    assert recorder.all(POOL) == []


@pytest.mark.parametrize(
    ("args", "change", "message"),
    [
        (
            {**ARGS, "rung": SLICE},
            {"max_nodes": 4},
            "deviceClaims.*must be false when a replica spans several hosts",
        ),
        (
            {**L4_ARGS, "rung": {**L4, "provisioning": "flex-start"}},
            {},
            "deviceClaims.*except with on-demand, reservation, spot, got a rung of flex-start",
        ),
        (L4_ARGS, {"gpu_driver": "latest"}, "gpuDriver.*must be disabled with deviceClaims"),
    ],
)
def test_claims_where_no_driver_could_hand_out_the_chips_are_refused(
    recorder, args, change, message
):
    with pytest.raises(pulumi.InputPropertyError, match=message):
        run(recorder, {**args, **change, "device_claims": True})
    assert recorder.all(POOL) == []


RDMA = {
    "accelerator": "nvidia-b200",
    "network": "rdma",
    "provisioning": "spot",
    "zones": ["us-central1-b"],
}


def test_a_pool_with_rdma_has_the_networks_and_the_driver_that_gke_makes(recorder):
    run(recorder, {**L4_ARGS, "rung": RDMA})
    inputs = recorder.one(POOL).inputs
    assert inputs["networkConfig"] == {
        "acceleratorNetworkProfile": "auto",
        "enablePrivateNodes": True,
    }
    labels = inputs["nodeConfig"]["labels"]
    assert labels == {"cloud.google.com/gke-networking-dra-driver": "true"}
    assert inputs["nodeConfig"].get("taints", []) == []


def test_a_pool_with_rdma_is_in_one_zone(recorder):
    zones = ["us-central1-a", "us-central1-b"]
    rung = {**RDMA, "zones": zones, "allow_unlisted_zones": True}
    with pytest.raises(pulumi.InputPropertyError, match="one zone: RDMA does not cross zones"):
        run(recorder, {**L4_ARGS, "rung": rung})


COMPACT = {**RDMA, "placement": "compact"}
CLOSE_H200 = {
    "accelerator": "nvidia-h200-141gb",
    "placement": "compact",
    "provisioning": "spot",
    "zones": ["us-central1-b"],
}


@pytest.mark.parametrize(
    ("policy", "placement"),
    [
        ({}, {"type": "COMPACT"}),
        ({"placement_policy": "near"}, {"policyName": "near", "type": "COMPACT"}),
    ],
)
def test_compact_nodes_have_the_given_policy_or_one_that_gke_makes(recorder, policy, placement):
    run(recorder, {**L4_ARGS, **policy, "rung": COMPACT})
    assert recorder.one(POOL).inputs["placementPolicy"] == placement


def test_upgrades_add_no_compact_nodes_of_flex_start(recorder):
    rung = {**CLOSE_H200, "provisioning": "flex-start"}
    run(recorder, {**L4_ARGS, "max_nodes": 96, "max_surge": 3, "rung": rung})
    assert recorder.one(POOL).inputs["placementPolicy"] == {"type": "COMPACT"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rung": {**L4, "placement": "compact"}}, "one zone for compact nodes, got 0"),
        (
            {"max_nodes": 94, "max_surge": 3, "rung": CLOSE_H200},
            "at most 93 for compact nodes with maxSurge 3, got 94",
        ),
        (
            {
                "max_nodes": 97,
                "rung": CLOSE_H200,
            },
            "at most 96 for compact nodes, got 97",
        ),
        (
            {"queued": True, "rung": {**COMPACT, "provisioning": "flex-start"}},
            "'any' or unset for a queued pool",
        ),
    ],
)
def test_a_pool_that_cannot_be_compact_is_refused(recorder, change, message):
    with pytest.raises(pulumi.InputPropertyError, match=message):
        run(recorder, {**L4_ARGS, **change})
    assert recorder.all(POOL) == []
