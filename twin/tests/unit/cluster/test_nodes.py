"""Nodes look like GKE's."""

import pytest

from twin.cluster.nodes import node_objects as nodes
from twin.cluster.nodes import pool_spec
from twin.cluster.nodes.node_objects import NodeShape
from twin.world.machines import (
    UnknownMachineError,
    machine,
    machines_of_family,
    offered_in,
    slice_hosts,
)


@pytest.mark.parametrize(
    ("memory_gib", "kept_mib"),
    [(4, 1024), (8, 1843), (16, 2662), (64, 5612), (128, 9544), (1440, 36413)],
)
def test_memory_is_reserved_by_the_published_tiers(memory_gib, kept_mib):
    assert nodes.reserved_memory_mib(memory_gib) == pytest.approx(kept_mib, abs=1)


@pytest.mark.parametrize(
    ("name", "kept"), [("e2-standard-2", 70), ("e2-standard-4", 80), ("e2-standard-8", 90)]
)
def test_cpu_is_reserved_by_the_published_tiers(name, kept):
    assert nodes.reserved_cpu_millicores(machine(name)) == kept


def test_a_shared_core_machine_keeps_1060_millicores():
    assert nodes.reserved_cpu_millicores(machine("e2-medium")) == 1060


def test_a_node_offers_less_than_it_has():
    shape = NodeShape(machine=machine("e2-standard-4"), pool="p")
    assert nodes.capacity(shape)["cpu"] == "4"
    assert nodes.allocatable(shape)["cpu"] == "3920m"
    assert nodes.allocatable(shape)["memory"] == "13622Mi"


@pytest.mark.parametrize("streaming", [True, False])
def test_a_node_says_whether_it_streams_images(streaming):
    inputs = {"nodeConfig": {"gcfsConfig": {"enabled": streaming}}}
    spec = pool_spec.parse({"name": "p", "inputs": inputs, "zones": ["us-east5-a"]})
    label = nodes.labels(spec.shape, "us-east5-a").get("cloud.google.com/gke-image-streaming")
    assert label == ("true" if streaming else None)


def test_a_tpu_node_says_what_chip_and_topology_it_has():
    shape = NodeShape(machine=machine("ct6e-standard-4t"), pool="tpu", topology="2x2")
    node = nodes.build(shape, name="n", zone="us-east5-b", project="acme")
    labels = node["metadata"]["labels"]
    assert labels["cloud.google.com/gke-tpu-accelerator"] == "tpu-v6e-slice"
    assert labels["cloud.google.com/gke-tpu-topology"] == "2x2"
    assert labels["cloud.google.com/machine-family"] == "ct6e"
    assert labels["topology.kubernetes.io/region"] == "us-east5"
    assert node["status"]["allocatable"]["google.com/tpu"] == "4"
    assert {"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"} in node["spec"][
        "taints"
    ]
    assert node["spec"]["providerID"] == "gce://acme/us-east5-b/n"


def test_a_single_host_tpu_pool_gets_its_topology_from_the_machine_type():
    shape = NodeShape(machine=machine("ct6e-standard-8t"), pool="tpu")
    assert nodes.labels(shape, "us-east5-b")["cloud.google.com/gke-tpu-topology"] == "2x4"


def test_a_gpu_node_says_which_gpu_and_how_many():
    shape = NodeShape(machine=machine("g2-standard-24"), pool="l4")
    labels = nodes.labels(shape, "us-central1-a")
    assert labels["cloud.google.com/gke-accelerator"] == "nvidia-l4"
    assert labels["cloud.google.com/gke-accelerator-count"] == "2"
    assert nodes.allocatable(shape)["nvidia.com/gpu"] == "2"


def test_shared_gpus_are_counted_once_a_client():
    shape = NodeShape(machine=machine("g2-standard-12"), pool="l4", gpu_shared_clients=4)
    assert nodes.allocatable(shape)["nvidia.com/gpu"] == "4"


def test_a_spot_node_of_a_class_is_tainted_and_one_of_a_hand_made_pool_is_not():
    item = machine("g2-standard-12")
    spot = {"key": "cloud.google.com/gke-spot", "value": "true", "effect": "NoSchedule"}
    by_class = NodeShape(machine=item, pool="p", provisioning="spot", spot_taint=True)
    by_hand = NodeShape(machine=item, pool="p", provisioning="spot")
    assert spot in nodes.taints(by_class)
    assert spot not in nodes.taints(by_hand)
    assert nodes.labels(by_hand, "us-central1-a")["cloud.google.com/gke-spot"] == "true"


def test_a_node_of_a_class_carries_its_label_and_taint():
    shape = NodeShape(machine=machine("e2-standard-4"), pool="p", compute_class="llm")
    assert nodes.labels(shape, "us-central1-a")[nodes.CLASS_LABEL] == "llm"
    assert {"key": nodes.CLASS_LABEL, "value": "llm", "effect": "NoSchedule"} in nodes.taints(shape)


def test_a_node_name_fits_into_a_label_whatever_the_cluster_is_called():
    assert len(nodes.node_name("c" * 40, "p" * 40, "abcd")) <= 63


@pytest.mark.parametrize(
    ("name", "vcpus", "memory"),
    [
        ("e2-standard-8", 8, 32),
        ("n2-highmem-4", 4, 32),
        ("c3-standard-44", 44, 176),
        ("n4-highcpu-16", 16, 32),
        ("c4-standard-2", 2, 7),
    ],
)
def test_general_machine_types_have_the_memory_of_the_catalogue(name, vcpus, memory):
    found = machine(name)
    assert (found.vcpus, found.memory_gib) == (vcpus, memory)


@pytest.mark.parametrize("name", ["e2-standard-7", "q9-standard-4", "e2", "ct6e-standard-2t"])
def test_a_machine_type_that_does_not_exist_is_refused(name):
    with pytest.raises(UnknownMachineError, match=name):
        machine(name)


def test_a_slice_has_as_many_hosts_as_its_topology_needs():
    assert slice_hosts(machine("ct6e-standard-4t"), "4x4") == 4
    assert slice_hosts(machine("ct6e-standard-4t"), "2x2") == 1
    assert slice_hosts(machine("g2-standard-12"), None) == 1
    with pytest.raises(UnknownMachineError, match="8x8"):
        slice_hosts(machine("ct6e-standard-8t"), "8x8")


def test_an_accelerator_is_not_offered_in_a_region_the_catalogue_does_not_list():
    assert offered_in(machine("ct6e-standard-4t"), "us-east5-b", "on-demand")
    assert not offered_in(machine("ct6e-standard-4t"), "us-west4-a", "on-demand")
    assert offered_in(machine("e2-standard-4"), "us-west4-a", "on-demand")


def test_a_family_lists_its_smallest_machine_first():
    sizes = [item.vcpus for item in machines_of_family("e2")]
    assert sizes == sorted(sizes)
    assert sizes[0] == 2
