"""Maximum quota that a stack can use."""

import json
import math
from typing import Any

import pytest

from gke_inference.catalogue.system_pool import MACHINE_TYPE, MOST_NODES, SURGE_NODES
from infra.estimate.quota_needs import Need, needs
from infra.estimate.quota_nodes import system_nodes
from infra.plan import resolve
from infra.reading.load import parse, read
from infra.stack import Platform
from tests.contract.infra.broken_stacks import edited
from tests.contract.infra.cloud import Deployed
from tests.contract.infra.resolved import region_of

MODEL = "llama-3.1-8b"
REPLICAS = ["models", MODEL, "replicas"]
RUNGS = ["capacity", "interactive", "rungs"]


def changed(base: str, *edits: tuple[list[Any], Any]) -> Platform:
    """Return a stack of stacks/ with other values at some places."""
    listed = [{"at": place, "value": value} for place, value in edits]
    return parse(json.dumps(edited(base, listed)))


def by_label(platform: Platform, region: str | None = "us-central1") -> dict[str, Need]:
    return {need.metric.label: need for need in needs(resolve(platform)) if need.region == region}


def test_every_rung_may_have_to_take_all_replicas() -> None:
    found = by_label(changed("local", (REPLICAS, {"min": 2, "max": 8, "standby": 1})))
    upgrade = 1  # a node of an auto-created pool
    assert found["TPUS_PER_TPU_FAMILY CT6E"].amount == 8 * 4
    assert found["NVIDIA_L4_GPUS"].amount == 8 + upgrade
    assert found["PREEMPTIBLE_NVIDIA_L4_GPUS"].amount == 8 + upgrade


def test_rungs_of_one_quota_ask_for_the_largest_and_not_for_the_sum() -> None:
    heavy = by_label(read("prod"))["PREEMPTIBLE_NVIDIA_H100_GPUS"]
    parts = {part.who: part.amount for part in heavy.parts}
    assert parts["gemma-3-27b"] == 6 * 2  # flex-start and spot, two GPUs each
    assert heavy.provisioning == ("flex-start", "spot")
    assert heavy.accelerator == "nvidia-h100-80gb"


def test_models_that_share_a_quota_are_added_up_and_named() -> None:
    need = by_label(read("prod"))["TPUS_PER_TPU_FAMILY CT6E"]
    parts = [(part.who, part.amount) for part in need.parts]
    assert parts == [("llama-3.1-8b", 48), ("gemma-3-27b", 48), ("qwen3-32b", 32)]
    assert need.amount == 128
    assert need.zones == ("us-central1-b",)
    assert need.dimensions == {"region": "us-central1", "tpu_family": "CT6E"}


def test_machines_of_a_model_with_disks_stand_only_in_the_zones_of_the_disks() -> None:
    found = by_label(read("prod"))
    assert found["GPUS_PER_GPU_FAMILY NVIDIA_H100"].zones == ("us-central1-b",)
    shared = found["PREEMPTIBLE_NVIDIA_H100_GPUS"]  # of a model without a disk, too
    assert len(shared.zones) == 3


def test_a_single_replica_is_replaced_by_a_second_one_in_an_update() -> None:
    alone = by_label(changed("local", (REPLICAS, {"min": 1, "max": 8, "standby": 0})))
    several = by_label(changed("local", (REPLICAS, {"min": 2, "max": 8, "standby": 0})))
    tpu = "TPUS_PER_TPU_FAMILY CT6E"
    assert alone[tpu].amount == several[tpu].amount + 4


def test_pools_made_beforehand_stop_at_their_maximum() -> None:
    small = by_label(read("dev"), "us-central1")
    assert small["PREEMPTIBLE_TPU_V6E"].amount == 2
    larger = changed("dev", (["capacity", "either-chip", "node_pools", "max_nodes"], 9))
    assert by_label(larger, "us-central1")["PREEMPTIBLE_TPU_V6E"].amount == 3


def test_auto_provisioning_stops_at_its_limits_and_brings_cpus() -> None:
    limits = ["regions", "us-central1", "auto_provisioning_limits"]
    need = by_label(
        changed("dev", (limits, {"cpu": 100, "memory": 400, "nvidia-l4": 1})), "us-central1"
    )
    assert need["NVIDIA_L4_GPUS"].amount == need["NVIDIA_L4_GPUS"].most == 1
    assert need["CPUS"].amount == 100
    assert need["PREEMPTIBLE_TPU_V6E"].most is None


def test_a_reservation_of_another_project_takes_its_quota() -> None:
    shared = changed("local", ([*RUNGS, 0, "reservation_project"], "acme-reservations"))
    assert "TPUS_PER_TPU_FAMILY CT6E" not in by_label(shared)


def test_calendar_mode_takes_no_quota_of_chips() -> None:
    newer = ([*RUNGS, 0, "allow_unlisted_zones"], True)
    booked = changed("local", ([*RUNGS, 0, "provisioning"], "calendar"), newer)
    found = by_label(booked)
    assert "TPUS_PER_TPU_FAMILY CT6E" not in found
    assert found["HDB_TOTAL_GB"].amount > 0


@pytest.mark.parametrize("surge", [0, 3])
def test_an_upgrade_of_a_pool_of_the_stack_adds_the_nodes_of_its_setting(surge: int) -> None:
    pools = {"max_nodes": 4, "max_surge": surge, "max_unavailable": 1}
    replicas = (REPLICAS, {"min": 2, "max": 8})
    form = (["models", MODEL, "form"], "dual-container")
    node_pools = (["capacity", "interactive", "node_pools"], pools)
    found = by_label(changed("local", replicas, form, node_pools))
    assert found["PREEMPTIBLE_NVIDIA_L4_GPUS"].amount == 4 + surge


def test_system_nodes_ask_for_cpus_disks_and_one_more_in_an_upgrade() -> None:
    found = by_label(read("local"))
    assert found["CPUS"].amount == 4 * (3 + 1)
    parts = {part.who: part.amount for part in found["SSD_TOTAL_GB"].parts}
    assert parts["system nodes, 1 more in an upgrade"] == 400


def test_boot_disks_of_system_nodes_count_where_their_type_does() -> None:
    kind = ["regions", "us-central1", "system_pool", "machine_type"]
    found = by_label(changed("local", (kind, "n4-standard-4")))
    parts = {part.who: part.amount for part in found["HDB_TOTAL_GB"].parts}
    assert parts["system nodes, 1 more in an upgrade"] == 400


def test_autopilot_has_no_system_nodes_to_count() -> None:
    region = ["regions", "us-central1"]
    stack = edited("local", [{"at": [*region, "system_pool"], "remove": True}])
    stack["regions"]["us-central1"]["mode"] = "autopilot"
    assert "CPUS" not in by_label(parse(json.dumps(stack)))


def test_weights_on_disks_ask_for_size_and_throughput_in_each_zone() -> None:
    found = by_label(read("prod"), "europe-west4")
    assert found["HDML_TOTAL_GB"].amount == 2 * 200
    assert found["HDML_TOTAL_THROUGHPUT"].amount == 2 * 4800


@pytest.mark.parametrize(
    ("exposure", "address"), [("external", "STATIC_ADDRESSES"), ("internal", "INTERNAL_ADDRESSES")]
)
def test_a_gateway_asks_for_an_address_of_its_exposure(exposure: str, address: str) -> None:
    found = by_label(changed("local", (["gateway", "exposure"], exposure)))
    assert found[address].amount == 1
    rule = f"REGIONAL_{exposure.upper()}_MANAGED_FORWARDING_RULES_PER_REGION_PER_NETWORK"
    assert found[rule].amount == 1


def test_the_whole_project_comes_last_and_adds_regions_up() -> None:
    found = needs(resolve(read("prod")))
    regions = list(dict.fromkeys(need.region for need in found))
    assert regions == ["us-central1", "europe-west4", "asia-northeast1", None]
    every = by_label(read("prod"), None)
    assert every["CPUS_ALL_REGIONS"].amount == 3 * 8 * (12 + 1)
    assert every["SUBNETWORKS"].amount == 3 * (2 + 1) + 3  # published ones, and those of the front


def test_a_canary_asks_for_its_own_replicas() -> None:
    canary = {"version": "v2", "weights": "llama-3.1-8b-v2", "replicas": {"min": 2, "max": 3}}
    need = by_label(changed("local", (["models", MODEL, "canary"], canary)))
    parts = {part.who: part.amount for part in need["TPUS_PER_TPU_FAMILY CT6E"].parts}
    assert parts["llama-3.1-8b-v2"] == 3 * 4


def without_system_pool(mode: str = "standard") -> Platform:
    """Return the local stack with the system pool that the component makes by itself."""
    stack = edited("local", [{"at": ["regions", "us-central1", "system_pool"], "remove": True}])
    stack["regions"]["us-central1"]["mode"] = mode
    return parse(json.dumps(stack))


def test_address_translation_counts_the_system_nodes_that_other_quotas_count() -> None:
    usual, own = read("local"), without_system_pool()
    assert system_nodes(region_of(usual, "us-central1")) == 3 + 1
    assert system_nodes(region_of(own, "us-central1")) == MOST_NODES + SURGE_NODES
    assert system_nodes(region_of(without_system_pool("autopilot"), "us-central1")) == 0
    replicas = (REPLICAS, {"min": 2, "max": 10, "standby": 0})
    many = changed("local", replicas, (["regions", "us-central1", "system_pool"], None))
    # 10 nodes of the TPU side, 10 of the GPU side and the system's take 4096 ports of 64512 each
    assert by_label(many)["CPUS"].amount == 4 * 7
    parts = {part.who: part.amount for part in by_label(many)["IN_USE_ADDRESSES"].parts}
    assert parts["address translation"] == math.ceil((10 + 10 + 7) * 4096 / 64512)


def test_a_pool_has_groups_only_in_the_zones_where_its_machines_may_stand() -> None:
    zones = ["us-central1-a", "us-central1-b", "us-central1-f"]  # no L4 in the last
    platform = changed("local", (["regions", "us-central1", "zones"], zones))
    where = list(region_of(platform, "us-central1").capacity["interactive"].zones.values())
    assert where == [("us-central1-b",), *[("us-central1-a", "us-central1-b")] * 2]
    assert by_label(platform)["INSTANCE_GROUPS"].amount == 3 + sum(map(len, where))


def test_a_system_pool_that_nobody_describes_is_the_components_own(deployed: Deployed) -> None:
    records = deployed(without_system_pool())
    pool = next(
        seen.inputs
        for seen in records.all("gcp:container/nodePool:NodePool")
        if seen.inputs["name"] == "system"
    )
    assert pool["autoscaling"]["totalMaxNodeCount"] == MOST_NODES
    assert pool["nodeConfig"]["machineType"] == MACHINE_TYPE
    assert pool["nodeConfig"]["diskType"] == "pd-balanced"
    assert pool["upgradeSettings"]["maxSurge"] == SURGE_NODES
