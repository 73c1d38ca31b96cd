"""The choice of rungs for pods, and the effect of the world's response."""

import itertools

import pytest

from twin.cluster.autoscaler.plan import Scan, plan
from twin.cluster.autoscaler.pods import parse
from twin.cluster.autoscaler.rungs import (
    ANYWAY,
    autopilot_rung,
    offers,
    parse_class,
    room_of,
)
from twin.cluster.nodes.node_objects import NodeShape, taints
from twin.cluster.nodes.pool_spec import parse as parse_pool
from twin.world.capacity import GRANTED, Answer
from twin.world.machines import machine

ZONES = ("us-central1-a", "us-central1-b")
TPU = {"tpu": {"type": "tpu-v6e-slice", "count": 4, "topology": "2x2"}}
L4 = {"machineType": "g2-standard-12", "gpu": {"type": "nvidia-l4", "count": 1}}
STOCKOUT = Answer("stockout", "ZONE_RESOURCE_POOL_EXHAUSTED", "none left")


def klass(*rules, **spec):
    body = {
        "metadata": {"name": "llm"},
        "spec": {
            "whenUnsatisfiable": "DoNotScaleUp",
            "nodePoolAutoCreation": {"enabled": True},
            "priorities": list(rules),
            **spec,
        },
    }
    return parse_class(body, ZONES, 600.0)


def pods(count, resource="nvidia.com/gpu", amount="1", **spec):
    tolerations = [{"operator": "Exists"}]
    containers = [{"resources": {"requests": {"cpu": "1", "memory": "1Gi", resource: amount}}}]
    return [
        parse(
            {
                "metadata": {"uid": str(number), "namespace": "ns", "name": f"p{number}"},
                "spec": {"containers": containers, "tolerations": tolerations, **spec},
            }
        )
        for number in range(count)
    ]


class World:
    """A world that answers requests from a list, then grants them, and records the requests."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    def __call__(self, found):
        self.asked.append(found[0])
        return (self.answers.pop(0) if self.answers else GRANTED), found[0]


def decide(
    found, waiting, *, world=None, cooling=None, coming=(), pools=None, counts=None, now=100.0
):
    scan = Scan(
        found,
        pools or {},
        counts if counts is not None else {},
        cooling or {},
        now,
        ZONES,
        world or World(),
    )
    return plan(scan, lambda _: found.rungs, waiting, list(coming))


def test_the_first_rung_that_holds_the_pod_is_asked_first():
    world = World()
    [verdict] = decide(klass(TPU, L4), pods(1), world=world)
    assert verdict.kind == "requested"
    assert [offer.rung.index for offer in world.asked] == [1]


def test_a_stock_out_ends_the_scan_and_a_cooling_rung_is_passed_over():
    world = World(STOCKOUT)
    spot = {**L4, "spot": True}
    [verdict] = decide(klass(L4, spot), pods(2), world=world)
    assert verdict.offer is not None
    assert (verdict.kind, verdict.offer.rung.index, len(verdict.pods)) == ("failed", 0, 2)
    world = World()
    decide(klass(L4, spot), pods(1), world=world, cooling={0: 101.0})
    assert [offer.rung.provisioning for offer in world.asked] == ["spot"]


def test_machines_alone_fall_from_one_family_to_the_next_and_only_arm_ones_have_its_taint():
    families = [{"machineType": f"{family}-standard-8"} for family in ("c3", "n4", "c4a")]
    server = pods(1, "memory", "22Gi", nodeSelector={"cloud.google.com/compute-class": "llm"})
    world = World(STOCKOUT)
    [verdict] = decide(klass(*families), server, world=world)
    assert verdict.offer is not None
    assert (verdict.kind, verdict.offer.rung.title) == ("failed", "c3-standard-8 on-demand")
    made: list[NodeShape] = []
    for cooling in ({0: 101.0}, {0: 101.0, 1: 101.0}):
        world = World()
        decide(klass(*families), server, world=world, cooling=cooling)
        made.append(world.asked[0].shape)
    assert [shape.machine.name for shape in made] == ["n4-standard-8", "c4a-standard-8"]
    arm = [{"key": "kubernetes.io/arch", "value": "arm64", "effect": "NoSchedule"}]
    known = [[each for each in taints(shape) if each["key"] == arm[0]["key"]] for shape in made]
    assert known == [[], arm]


def test_a_rung_is_tried_again_when_its_cool_down_is_over():
    world = World()
    decide(klass(L4, {**L4, "spot": True}), pods(1), world=world, cooling={0: 99.0})
    assert world.asked[0].rung.index == 0


def test_pods_wait_while_every_rung_cools_down():
    [verdict] = decide(klass(L4), pods(3), cooling={0: 101.0})
    assert (verdict.kind, len(verdict.pods)) == ("waiting", 3)
    assert verdict.message == "pod didn't trigger scale-up: 1 in backoff after failed scale-up"


def test_a_pod_no_rung_can_hold_is_refused_with_the_reasons():
    [verdict] = decide(klass(L4), pods(1, amount="2"))
    assert verdict.kind == "refused"
    assert "1 Insufficient nvidia.com/gpu" in verdict.message


def test_each_pod_that_needs_a_whole_machine_gets_one():
    verdicts = decide(klass(L4), pods(3))
    assert [verdict.kind for verdict in verdicts] == ["requested"] * 3


def test_small_pods_share_one_machine():
    [verdict] = decide(klass({"machineType": "e2-standard-8"}), pods(5, "cpu", "1"))
    assert len(verdict.pods) == 5


def test_nodes_that_are_coming_are_counted_before_more_are_asked_for():
    found = klass(L4)
    [offer] = offers(found.rungs[0], pods(1)[0], found, {})[0][:1]
    assert decide(found, pods(1), coming=[room_of(offer.shape, offer.zone)]) == []


def test_a_multi_host_slice_serves_as_many_pods_as_it_has_hosts():
    rule = {"tpu": {"type": "tpu-v6e-slice", "count": 4, "topology": "4x4"}}
    [verdict] = decide(klass(rule), pods(4, "google.com/tpu", "4"))
    assert verdict.offer is not None
    assert (verdict.offer.hosts, len(verdict.pods)) == (4, 4)


def test_a_pod_that_names_another_topology_does_not_get_this_rung():
    selector = {"cloud.google.com/gke-tpu-topology": "2x4"}
    [verdict] = decide(klass(TPU), pods(1, "google.com/tpu", "4", nodeSelector=selector))
    assert verdict.kind == "refused"


@pytest.mark.parametrize(
    ("storage", "why"),
    [
        ({"secondaryBootDisks": [{"diskImageName": "engines"}]}, "takes no secondary boot disk"),
        ({"bootDiskType": "pd-balanced"}, "does not boot from pd-balanced"),
    ],
)
def test_a_tpu_node_does_not_come_with_disks_it_cannot_have(storage, why):
    [verdict] = decide(klass({**TPU, "storage": storage}), pods(1, "google.com/tpu", "4"))
    assert verdict.kind == "refused"
    assert why in verdict.message


def test_an_a3_ultra_does_not_boot_from_a_persistent_disk():
    rule = {"machineType": "a3-ultragpu-8g", "storage": {"bootDiskType": "pd-balanced"}}
    [verdict] = decide(klass(rule), pods(1, "nvidia.com/gpu", "8"))
    assert verdict.kind == "refused"
    assert "a3-ultragpu-8g does not boot from pd-balanced" in verdict.message


def test_a_rule_of_machines_that_are_not_sold_that_way_is_passed_over():
    few = {"machineType": "a3-highgpu-1g", "gpu": {"type": "nvidia-h100-80gb", "count": 1}}
    [verdict] = decide(klass(few), pods(1))
    assert "a3-highgpu-1g by on-demand is not offered in us-central1-a" in verdict.message
    [verdict] = decide(klass({**few, "spot": True}), pods(1))
    assert verdict.offer is not None


def test_without_auto_creation_nothing_is_created():
    [verdict] = decide(klass(L4, nodePoolAutoCreation={"enabled": False}), pods(1))
    assert verdict.kind == "refused"
    assert "auto-creation is disabled" in verdict.message


def test_scale_up_anyway_brings_a_general_machine_when_every_rung_fails():
    world = World()
    found = klass({"machineType": "c3-standard-4"}, whenUnsatisfiable="ScaleUpAnyway")
    decide(found, pods(1, "cpu", "1"), world=world, cooling={0: 101.0})
    assert world.asked[0].rung.index == ANYWAY
    assert world.asked[0].shape.machine.family == "e2"


def test_scale_up_anyway_does_not_help_a_pod_that_needs_an_accelerator():
    [verdict] = decide(klass(TPU, whenUnsatisfiable="ScaleUpAnyway"), pods(1))
    assert verdict.kind == "refused"


def test_a_specific_reservation_is_asked_for_in_its_own_zones():
    reservations = {
        "affinity": "Specific",
        "specific": [{"name": "res", "zones": ["us-central1-b"]}],
    }
    world = World()
    decide(klass({**L4, "reservations": reservations}), pods(1), world=world)
    [offer] = world.asked
    assert (offer.zone, offer.shape.reservation, offer.shape.provisioning) == (
        "us-central1-b",
        "res",
        "reservation",
    )


def test_a_rung_keeps_to_the_zones_of_its_location():
    world = World()
    decide(klass({**L4, "location": {"zones": ["us-central1-b"]}}), pods(1), world=world)
    assert {offer.zone for offer in world.asked} == {"us-central1-b"}


def test_default_zones_of_the_class_hold_for_rungs_that_name_none():
    found = klass(L4, priorityDefaults={"location": {"zones": ["us-central1-c"]}})
    assert found.rungs[0].zones == ("us-central1-c",)


def test_flex_start_waits_for_capacity_as_long_as_it_says():
    flex = {**L4, "flexStart": {"enabled": True}}
    assert klass(flex).rungs[0].wait_seconds == 600.0
    assert klass({**flex, "capacityCheckWaitTimeSeconds": 60}).rungs[0].wait_seconds == 60.0
    assert klass(L4).rungs[0].wait_seconds == 0.0


@pytest.mark.parametrize("order", list(itertools.permutations((10, 500, 1000))))
def test_a_higher_priority_score_comes_first(order):
    found = klass(*({**L4, "priorityScore": score} for score in order))
    assert [rung.rule["priorityScore"] for rung in found.rungs] == [1000, 500, 10]


def test_the_cheapest_of_equal_scores_comes_first():
    rules = [{**L4, "priorityScore": 5, "spot": spot} for spot in (False, True)]
    body = {
        "metadata": {"name": "llm"},
        "spec": {"whenUnsatisfiable": "DoNotScaleUp", "priorities": rules},
    }
    found = parse_class(body, ZONES, 600.0, lambda rule: 1.0 if rule["spot"] else 2.0)
    assert [rung.provisioning for rung in found.rungs] == ["spot", "on-demand"]


def manual_pool(name, **inputs):
    label = {"cloud.google.com/compute-class": "llm"}
    config = {"machineType": "g2-standard-12", "labels": label}
    return parse_pool(
        {
            "name": name,
            "zones": ["us-central1-a"],
            "inputs": {"nodeConfig": config, "autoscaling": {"maxNodeCount": 1}, **inputs},
        }
    )


def test_a_hand_made_pool_grows_to_its_maximum_and_no_further():
    counts = {}
    rule = {"nodepools": ["l4"]}
    verdicts = decide(klass(rule), pods(2), pools={"l4": manual_pool("l4")}, counts=counts)
    assert [verdict.kind for verdict in verdicts] == ["requested", "refused"]
    assert counts == {"l4": {"us-central1-a": 1}}
    assert "max node group size reached" in verdicts[1].message


def test_a_pool_that_does_not_exist_is_named():
    [verdict] = decide(klass({"nodepools": ["gone"]}), pods(1))
    assert "node pool gone does not exist" in verdict.message


def test_a_rung_whose_machine_does_not_exist_is_refused_and_not_fatal():
    [verdict] = decide(klass({"machineType": "g2-standard-13"}), pods(1))
    assert "g2-standard-13" in verdict.message


def test_a_rung_whose_gpu_is_not_in_the_machine_is_refused():
    rule = {"machineType": "g2-standard-12", "gpu": {"type": "nvidia-h100-80gb", "count": 1}}
    [verdict] = decide(klass(rule), pods(1))
    assert "g2-standard-12 has no nvidia-h100-80gb" in verdict.message


def test_a_family_rung_takes_the_smallest_machine_that_holds_the_pod():
    world = World()
    decide(klass({"machineFamily": "n2", "minCores": 8}), pods(1, "cpu", "9"), world=world)
    assert world.asked[0].shape.machine == machine("n2-highcpu-16")


def test_autopilot_makes_a_rung_from_what_the_pod_selects():
    selector = {
        "cloud.google.com/gke-accelerator": "nvidia-l4",
        "cloud.google.com/gke-spot": "true",
    }
    [pod] = pods(1, nodeSelector=selector)
    rung = autopilot_rung(pod, ZONES)
    found, _ = offers(rung, pod, None, {})
    assert found[0].shape.machine.accelerator == "nvidia-l4"
    assert found[0].shape.provisioning == "spot"
    [plain] = pods(1, "cpu", "1")
    assert offers(autopilot_rung(plain, ZONES), plain, None, {})[0][0].shape.machine.family == "e2"


def test_a_room_of_a_class_has_its_label():
    shape = NodeShape(machine=machine("e2-standard-4"), pool="p", compute_class="llm")
    assert room_of(shape, "us-central1-a").labels["cloud.google.com/compute-class"] == "llm"


ULTRA = {
    "machineType": "a3-ultragpu-8g",
    "gpu": {"type": "nvidia-h200-141gb", "count": 8},
    "location": {"zones": ["us-central1-b"]},
    "spot": True,
}


def test_nodes_of_a_rule_with_a_network_profile_say_so_and_run_the_driver_of_their_class():
    claims = {"nodePoolConfig": {"dra": {"networking": {"enabled": True}}}}
    labels = []
    for config in ({}, claims):
        rule = {**ULTRA, "acceleratorNetworkProfile": "auto"}
        [verdict] = decide(klass(rule, **config), pods(1, amount="8"))
        assert verdict.offer is not None
        labels.append(verdict.offer.shape.labels)
    profile = {"gke.networks.io/accelerator-network-profile": "auto"}
    assert labels == [
        profile,
        {**profile, "cloud.google.com/gke-networking-dra-driver": "true"},
    ]


def test_a_rule_with_a_network_profile_for_a_machine_that_takes_none_is_passed_over():
    [verdict] = decide(klass({**L4, "acceleratorNetworkProfile": "auto"}), pods(1))
    assert verdict.kind == "refused"
    assert "g2-standard-12 supports no accelerator network profile" in verdict.message


def test_nodes_of_a_rule_with_a_placement_policy_carry_its_name():
    found = klass({**L4, "placement": {"policyName": "near"}})
    (verdict,) = decide(found, pods(1))
    assert verdict.offer is not None
    assert verdict.offer.shape.placement == "near"
    room = room_of(verdict.offer.shape, verdict.offer.zone)
    assert room.labels["cloud.google.com/placement-policy-name"] == "near"


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ({"machineType": "e2-standard-8"}, "e2-standard-8 supports no compact placement"),
        (
            {**L4, "flexStart": {"enabled": True}},
            "g2-standard-12 by flex-start supports no compact placement",
        ),
    ],
)
def test_a_rule_whose_machines_cannot_be_compact_is_skipped(rule, reason):
    found = klass({**rule, "placement": {"policyName": "near"}})
    (verdict,) = decide(found, pods(1))
    assert verdict.kind == "refused"
    assert reason in verdict.reasons
