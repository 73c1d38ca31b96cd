"""Labels of nodes for their block, sub-block and host (rule placement.labels)."""

from dataclasses import replace

from twin.cluster.nodes.locations import location_labels
from twin.cluster.nodes.node_objects import NodeShape
from twin.world.machines import machine

ZONE = "us-central1-b"
BLOCK = "cloud.google.com/gce-topology-block"
SUBBLOCK = "cloud.google.com/gce-topology-subblock"
HOST = "cloud.google.com/gce-topology-host"
H200 = NodeShape(machine=machine("a3-ultragpu-8g"), pool="nap-a3-ultragpu-8g")
L4 = NodeShape(machine=machine("g2-standard-12"), pool="nap-g2-standard-12")
NAMES = [f"gke-acme-nap-{letter}" for letter in "abcdefgh"]


def values(shape: NodeShape, key: str, together: str | None = None) -> list[str]:
    return [location_labels(shape, name, ZONE, together)[key] for name in NAMES]


def test_nodes_that_nothing_places_together_are_in_blocks_of_their_own():
    assert len(set(values(H200, BLOCK))) == len(NAMES)


def test_nodes_of_one_placement_policy_are_in_one_block_on_several_sub_blocks():
    compact = replace(H200, placement="acme-nodes-placement")
    assert len(set(values(compact, BLOCK))) == 1
    assert 1 < len(set(values(compact, SUBBLOCK))) <= 4
    assert len(set(values(compact, HOST))) == len(NAMES)


def test_policies_and_zones_have_blocks_of_their_own():
    one, other = (replace(H200, placement=name) for name in ("one", "other"))
    found = {location_labels(shape, "n", ZONE)[BLOCK] for shape in (one, other)}
    found.add(location_labels(one, "n", "us-central1-a")[BLOCK])
    assert len(found) == 3


def test_nodes_that_one_request_created_together_are_in_one_block():
    assert len(set(values(H200, BLOCK, together="request"))) == 1


def test_a_machine_without_an_accelerator_network_has_labels_only_with_a_policy():
    assert location_labels(L4, "n", ZONE) == {}
    assert set(location_labels(replace(L4, placement="p"), "n", ZONE)) == {BLOCK, SUBBLOCK, HOST}
