from typing import Any, cast

import pulumi
import pulumi_kubernetes as k8s
import pytest

from gke_inference.capacity.compute_class import ComputeClass, ComputeClassArgs
from gke_inference.capacity.compute_class_rules import image_cache_disk
from policies.invariants.classes.lasting_tail import SPOT_ONLY_REASON
from tests.contract.components_k8s import crds

TYPE = "kubernetes:cloud.google.com/v1:ComputeClass"
RESERVED: Any = {
    "accelerator": "tpu-v6e",
    "topology": "2x2",
    "provisioning": "reservation",
    "reservation": "v6e-prod",
    "reservation_zones": ["us-east5-b"],
}
V6E_ON_DEMAND: Any = {
    "accelerator": "tpu-v6e",
    "topology": "2x2",
    "provisioning": "on-demand",
}
L4: Any = {"accelerator": "nvidia-l4", "count": 1, "provisioning": "on-demand"}
L4_SPOT: Any = {"accelerator": "nvidia-l4", "count": 1, "provisioning": "spot"}


def args(*rungs: Any) -> ComputeClassArgs:
    return {
        "class_name": "chat",
        "node_service_account": "nodes@acme.iam.gserviceaccount.com",
        "rungs": list(rungs),
    }


def spec_of(recorder, arguments):
    recorder.run(lambda: ComputeClass("chat", arguments).class_name)
    made = recorder.one(TYPE).inputs
    crds.check(made)
    return made["spec"]


def refused(recorder, arguments, message):
    with pytest.raises(pulumi.InputPropertyError, match=message):
        recorder.run(lambda: ComputeClass("chat", arguments).class_name)
    assert recorder.all(TYPE) == []


def test_rungs_become_priorities_in_their_order(recorder):
    spec = spec_of(recorder, args(RESERVED, V6E_ON_DEMAND))
    assert spec["priorities"] == [
        {
            "machineType": "ct6e-standard-4t",
            "maxPodsPerNode": 32,
            "tpu": {"count": 4, "topology": "2x2", "type": "tpu-v6e-slice"},
            "reservations": {
                "affinity": "Specific",
                "specific": [{"name": "v6e-prod", "zones": ["us-east5-b"]}],
            },
            "storage": {"bootDiskType": "hyperdisk-balanced"},
        },
        {
            "machineType": "ct6e-standard-4t",
            "maxPodsPerNode": 32,
            "tpu": {"count": 4, "topology": "2x2", "type": "tpu-v6e-slice"},
            "spot": False,
            "location": {"locationPolicy": "BALANCED"},
            "storage": {"bootDiskType": "hyperdisk-balanced"},
        },
    ]


def test_nothing_that_has_a_dangerous_default_is_left_to_it(recorder):
    spec = spec_of(recorder, args(L4))
    assert spec["whenUnsatisfiable"] == "DoNotScaleUp"
    assert spec["nodePoolAutoCreation"] == {"enabled": True}
    assert spec["activeMigration"] == {"optimizeRulePriority": False}
    assert spec["nodePoolConfig"] == {
        "imageStreaming": {"enabled": True},
        "serviceAccount": "nodes@acme.iam.gserviceaccount.com",
    }


def test_spot_takes_any_zone_and_asks_for_the_newest_driver(recorder):
    rule = spec_of(recorder, args({**L4_SPOT, "zones": ["us-central1-a"]}))["priorities"][0]
    assert rule["spot"] is True
    assert rule["location"] == {"locationPolicy": "ANY", "zones": ["us-central1-a"]}
    assert rule["gpu"] == {"count": 1, "driverVersion": "latest", "type": "nvidia-l4"}


def test_flex_start_replaces_its_node_before_the_run_ends(recorder):
    rung: Any = {**L4, "provisioning": "flex-start", "max_run_hours": 24}
    rule = spec_of(recorder, args(rung))["priorities"][0]
    assert rule["flexStart"] == {"enabled": True, "nodeRecycling": {"leadTimeSeconds": 3600}}
    assert rule["maxRunDurationSeconds"] == 86_400
    assert "spot" not in rule
    assert "reservations" not in rule


def test_the_google_name_of_a_gpu_is_used_in_the_class(recorder):
    rung: Any = {"accelerator": "nvidia-a100-40gb", "count": 1, "provisioning": "spot"}
    assert spec_of(recorder, args(rung))["priorities"][0]["gpu"]["type"] == "nvidia-tesla-a100"


def test_a_shared_reservation_names_its_project(recorder):
    rung: Any = {**RESERVED, "reservation_project": "acme-capacity"}
    specific = spec_of(recorder, args(rung))["priorities"][0]["reservations"]["specific"]
    assert specific == [{"name": "v6e-prod", "project": "acme-capacity", "zones": ["us-east5-b"]}]


def test_pools_made_by_hand_may_mix_tpu_and_gpu_and_nothing_is_created(recorder):
    mixed = args({**V6E_ON_DEMAND, "node_pools": ["v6e"]}, {**L4, "node_pools": ["l4"]})
    spec = spec_of(recorder, mixed)
    assert spec["priorities"] == [{"nodepools": ["v6e"]}, {"nodepools": ["l4"]}]
    assert spec["nodePoolAutoCreation"] == {"enabled": False}
    assert "nodePoolConfig" not in spec


def test_an_image_cache_becomes_a_secondary_boot_disk_of_every_gpu_rung(recorder):
    arguments = args(L4, L4_SPOT)
    arguments["image_cache"] = pulumi.Output.from_input("projects/acme/global/images/engines")
    disks = [rule["storage"] for rule in spec_of(recorder, arguments)["priorities"]]
    expected = {
        "bootDiskType": "pd-balanced",
        "secondaryBootDisks": [
            {"diskImageName": "engines", "mode": "CONTAINER_IMAGE_CACHE", "project": "acme"}
        ],
    }
    assert disks == [expected, expected]


def test_a_tpu_node_has_no_secondary_boot_disk_and_boots_from_hyperdisk(recorder):
    arguments = {**args(V6E_ON_DEMAND), "image_cache": "projects/acme/global/images/engines"}
    storage = spec_of(recorder, arguments)["priorities"][0]["storage"]
    assert storage == {"bootDiskType": "hyperdisk-balanced"}


@pytest.mark.parametrize(
    ("accelerator", "disk"),
    [
        ("nvidia-h100-80gb", "pd-balanced"),
        ("nvidia-h200-141gb", "hyperdisk-balanced"),
        ("nvidia-b200", "hyperdisk-balanced"),
    ],
)
def test_a_gpu_node_boots_from_a_disk_that_its_machine_takes(recorder, accelerator, disk):
    rung: Any = {"accelerator": accelerator, "count": 8, "provisioning": "spot"}
    spec = spec_of(recorder, args(rung))
    assert spec["priorities"][0]["storage"] == {"bootDiskType": disk}


def test_a_bare_image_name_is_of_the_clusters_project():
    assert image_cache_disk("engines") == {
        "diskImageName": "engines",
        "mode": "CONTAINER_IMAGE_CACHE",
    }


@pytest.mark.parametrize("image", ["", "projects/acme/images/engines", "projects//global/images/x"])
def test_an_image_cache_that_is_no_image_is_refused(recorder, image):
    refused(recorder, {**args(L4), "image_cache": image}, "global/images/NAME")


def test_moving_back_is_asked_for(recorder):
    spec = spec_of(recorder, {**args(L4), "move_back": True})
    assert spec["activeMigration"] == {"optimizeRulePriority": True}


def test_tpu_and_gpu_in_one_class_are_refused(recorder):
    refused(recorder, args(V6E_ON_DEMAND, L4), "rungs.*must all be TPU or all GPU")


def test_a_rung_is_not_repeated(recorder):
    refused(recorder, args(L4, L4_SPOT, L4), r"rungs\[2\].*must not repeat")


def test_a_fault_in_a_rung_names_the_rung_and_the_field(recorder):
    refused(recorder, args(L4, {**V6E_ON_DEMAND, "topology": "3x3"}), r"rungs\[1\]\.topology")


def test_a_class_has_one_to_ten_rungs(recorder):
    refused(recorder, args(), "must have at least 1 entry, got 0")


def test_eleven_rungs_are_too_many(recorder):
    many: list[Any] = [
        {**L4, "provisioning": "flex-start", "max_run_hours": hours} for hours in range(1, 12)
    ]
    refused(recorder, args(*many), "must have at most 10 entries, got 11")


@pytest.mark.parametrize("name", ["gke-chat", "autopilot-chat"])
def test_prefixes_of_google_are_refused(recorder, name):
    refused(recorder, {**args(L4), "class_name": name}, "must not begin with")


def test_a_multi_host_slice_cannot_be_moved_back(recorder):
    slice_rung: Any = {**V6E_ON_DEMAND, "topology": "4x4"}
    refused(recorder, {**args(slice_rung), "move_back": True}, "moveBack.*multi-host")


@pytest.mark.parametrize("pods", [7, 257])
def test_pods_per_node_stay_in_gkes_range(recorder, pods):
    refused(recorder, {**args(L4), "max_pods_per_node": pods}, f"8 to 256, got {pods}")


def test_an_unknown_word_for_a_full_capacity_is_refused(recorder):
    refused(recorder, {**args(L4), "when_unsatisfiable": "wait"}, "whenUnsatisfiable.*'wait'")


def test_the_callers_kubernetes_provider_reaches_the_class(recorder):
    def program():
        provider = k8s.Provider("cluster", kubeconfig="{}")
        options = pulumi.ResourceOptions(providers={"kubernetes": provider})
        return ComputeClass("chat", args(L4), options).class_name

    recorder.run(program)
    assert "cluster" in recorder.one(TYPE).provider


def test_numbers_of_other_languages_build_the_same_class(recorder):
    wire: Any = {**args(cast("Any", {**L4, "count": 1.0})), "max_pods_per_node": 32.0}
    arguments: ComputeClassArgs = wire
    assert spec_of(recorder, arguments)["priorities"][0]["maxPodsPerNode"] == 32


def test_nodes_with_rdma_get_their_networks_and_a_driver_from_gke(recorder):
    rung: Any = {
        "accelerator": "nvidia-h200-141gb",
        "hosts": 2,
        "provisioning": "spot",
        "zones": ["us-central1-b"],
    }
    spec = spec_of(recorder, args(rung))
    assert spec["nodePoolConfig"]["dra"] == {"networking": {"enabled": True}}
    assert spec["priorities"][0]["acceleratorNetworkProfile"] == "auto"


def test_nodes_that_need_no_others_have_no_networks_of_their_own(recorder):
    spec = spec_of(recorder, args({"accelerator": "nvidia-h200-141gb", "provisioning": "spot"}))
    assert "dra" not in spec["nodePoolConfig"]
    assert "acceleratorNetworkProfile" not in spec["priorities"][0]


COMPACT: Any = {
    "accelerator": "nvidia-h200-141gb",
    "placement": "compact",
    "provisioning": "spot",
    "zones": ["us-central1-b"],
}


def test_compact_nodes_have_the_placement_policy_of_the_class(recorder):
    spec = spec_of(recorder, {**args(COMPACT, L4), "placement_policy": "acme-nodes"})
    compact, other = spec["priorities"]
    assert compact["placement"] == {"policyName": "acme-nodes"}
    assert "placement" not in other


def test_compact_nodes_without_a_policy_are_refused(recorder):
    with pytest.raises(pulumi.InputPropertyError, match=r"for the compact nodes of rungs\[1\]"):
        spec_of(recorder, args(L4, COMPACT))


def test_compact_nodes_are_in_one_zone(recorder):
    wide: Any = {
        **COMPACT,
        "allow_unlisted_zones": True,
        "zones": ["us-central1-a", "us-central1-b"],
    }
    with pytest.raises(pulumi.InputPropertyError, match="one zone for compact nodes, got 2"):
        spec_of(recorder, {**args(wide), "placement_policy": "acme-nodes"})


def test_a_class_of_spot_alone_has_the_reason_that_it_is_given(recorder):
    arguments: Any = {**args(L4_SPOT), "spot_only_reason": "a laboratory"}
    spec_of(recorder, arguments)
    annotations = recorder.one(TYPE).inputs["metadata"]["annotations"]
    assert annotations == {SPOT_ONLY_REASON: "a laboratory"}


def test_a_reason_for_spot_alone_is_refused_where_a_rung_is_not_spot(recorder):
    arguments: Any = {**args(L4_SPOT, L4), "spot_only_reason": "a laboratory"}
    refused(recorder, arguments, "must not be set: a rung is not Spot, got 'a laboratory'")
