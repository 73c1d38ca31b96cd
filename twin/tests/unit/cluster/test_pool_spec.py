"""Node pools as the gcp provider hands them on."""

import pytest

from twin.cluster.nodes.pool_spec import parse


def pool(zones=("us-central1-a", "us-central1-b"), **inputs):
    return parse({"name": "p", "zones": list(zones), "inputs": inputs})


def test_a_pool_without_autoscaling_has_its_count_in_each_zone():
    spec = pool(nodeCount=2, nodeConfig={"machineType": "e2-standard-4"})
    assert spec.minimum() == {"us-central1-a": 2, "us-central1-b": 2}
    assert not spec.autoscaled
    assert not spec.may_grow({}, "us-central1-a")


def test_an_autoscaled_pool_starts_at_its_minimum():
    spec = pool(autoscaling={"minNodeCount": 1, "maxNodeCount": 3})
    assert spec.at_creation() == {"us-central1-a": 1, "us-central1-b": 1}
    assert spec.may_grow({"us-central1-a": 2}, "us-central1-a")
    assert not spec.may_grow({"us-central1-a": 3}, "us-central1-a")
    assert not spec.may_shrink({"us-central1-a": 1}, "us-central1-a")


def test_total_limits_are_spread_over_the_zones():
    spec = pool(autoscaling={"totalMinNodeCount": 3, "totalMaxNodeCount": 4})
    assert spec.minimum() == {"us-central1-a": 2, "us-central1-b": 1}
    assert not spec.may_grow({"us-central1-a": 2, "us-central1-b": 2}, "us-central1-a")
    assert not spec.may_shrink({"us-central1-a": 2, "us-central1-b": 1}, "us-central1-a")


def test_a_multi_host_slice_comes_as_a_whole():
    spec = pool(
        zones=("us-east5-b",),
        nodeConfig={"machineType": "ct6e-standard-4t"},
        placementPolicy={"type": "COMPACT", "tpuTopology": "4x4"},
        autoscaling={"minNodeCount": 0, "maxNodeCount": 4},
    )
    assert spec.hosts == 4
    assert spec.at_creation() == {"us-east5-b": 0}
    assert spec.may_grow({}, "us-east5-b")
    assert not spec.may_grow({"us-east5-b": 4}, "us-east5-b")


def test_a_slice_pool_with_a_smaller_count_is_rounded_up_to_the_slice():
    spec = pool(
        zones=("us-east5-b",),
        nodeCount=1,
        nodeConfig={"machineType": "ct6e-standard-4t"},
        placementPolicy={"tpuTopology": "4x4"},
    )
    assert spec.at_creation() == {"us-east5-b": 4}


def test_a_slice_placed_by_a_workload_policy_takes_its_topology_from_there():
    data = {
        "name": "p",
        "zones": ["us-central1-c"],
        "inputs": {
            "nodeConfig": {"machineType": "tpu7x-standard-4t"},
            "placementPolicy": {"policyName": "slice"},
        },
    }
    spec = parse(
        data,
        lambda name: (
            {"workloadPolicy": {"acceleratorTopology": "2x2x2"}} if name == "slice" else None
        ),
    )
    assert (spec.hosts, spec.shape.topology) == (2, "2x2x2")


@pytest.mark.parametrize(
    ("config", "provisioning", "reservation"),
    [
        ({"spot": True}, "spot", None),
        ({"flexStart": True}, "flex-start", None),
        (
            {
                "reservationAffinity": {
                    "consumeReservationType": "SPECIFIC_RESERVATION",
                    "key": "compute.googleapis.com/reservation-name",
                    "values": ["projects/p/reservations/res/reservationBlocks/b1"],
                }
            },
            "reservation",
            "projects/p/reservations/res",
        ),
        ({"reservationAffinity": {"consumeReservationType": "NO_RESERVATION"}}, "on-demand", None),
    ],
)
def test_how_a_pool_is_provisioned_follows_from_its_configuration(
    config, provisioning, reservation
):
    shape = pool(nodeConfig={"machineType": "g2-standard-12", **config}).shape
    assert (shape.provisioning, shape.reservation) == (provisioning, reservation)


def test_a_pool_joins_a_class_by_label_and_keeps_its_own_taints():
    spec = pool(
        nodeConfig={
            "machineType": "g2-standard-12",
            "labels": {"cloud.google.com/compute-class": "llm", "team": "a"},
            "taints": [
                {"key": "cloud.google.com/compute-class", "value": "llm", "effect": "NO_SCHEDULE"}
            ],
        }
    )
    assert spec.shape.compute_class == "llm"
    assert spec.shape.labels == {"team": "a"}
    assert spec.shape.taints == (("cloud.google.com/compute-class", "llm", "NoSchedule"),)


def test_a_topology_that_the_machine_type_cannot_make_is_refused():
    with pytest.raises(ValueError, match="3x3"):
        pool(nodeConfig={"machineType": "ct6e-standard-4t"}, placementPolicy={"tpuTopology": "3x3"})


def test_a_reservation_of_a_pools_own_project_is_known_by_its_name():
    affinity = {
        "consumeReservationType": "SPECIFIC_RESERVATION",
        "key": "compute.googleapis.com/reservation-name",
        "values": ["projects/p/reservations/res"],
    }
    config = {"machineType": "g2-standard-12", "reservationAffinity": affinity}
    assert pool(nodeConfig=config, project="p").shape.reservation == "res"


@pytest.mark.parametrize(
    ("placement", "policy"),
    [
        ({"type": "COMPACT"}, "p"),
        ({"type": "COMPACT", "policyName": "projects/a/regions/r/resourcePolicies/near"}, "near"),
        ({}, None),
    ],
)
def test_compact_nodes_have_the_policy_of_their_pool(placement, policy):
    spec = pool(nodeConfig={"machineType": "a3-ultragpu-8g"}, placementPolicy=placement)
    assert spec.shape.placement == policy
