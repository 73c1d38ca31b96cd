"""Units of capacity buffers: how many, where they are placed, and which nodes they hold."""

import pytest

from twin.cluster.autoscaler import buffers
from twin.cluster.autoscaler.buffers import Unit, UnprovisionableError, place, units, within_quota
from twin.cluster.autoscaler.pods import parse
from twin.cluster.autoscaler.rungs import room_of
from twin.cluster.autoscaler.state import Cluster, Node
from twin.cluster.autoscaler.volumes import Volumes
from twin.cluster.controlplane.kinds import has_kind, own_crds
from twin.cluster.nodes.node_objects import NodeShape
from twin.world.machines import machine

CLASS = {"cloud.google.com/compute-class": "llm"}
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def template(**spec):
    container = {"resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}}}
    tolerations = [{"operator": "Exists"}]
    body = {"containers": [container], "nodeSelector": CLASS, "tolerations": tolerations}
    return {"metadata": {"labels": {"app": "llm"}}, "spec": {**body, **spec}}


def buffer(name="spare", **spec):
    meta = {"name": name, "namespace": "ns", "uid": f"uid-of-{name}"}
    return {"metadata": meta, "spec": spec}


def virtual(count, **spec):
    return buffers.virtual_pods(buffer(), Unit(template(**spec), count), {}, ["llm"], Volumes())


def node(name, *on, unschedulable=False):
    item = {
        "metadata": {"name": name, "labels": CLASS},
        "spec": {"taints": [GPU_TAINT], "unschedulable": unschedulable},
        "status": {"allocatable": {"cpu": "11", "nvidia.com/gpu": "1", "pods": "110"}},
    }
    return Node(item, list(on), [])


def cluster(*nodes):
    return Cluster([], list(nodes), {}, {}, {}, {}, False, ("us-central1-a",))


def replica(name):
    meta = {"uid": name, "namespace": "ns", "name": name}
    return parse({"metadata": meta, "spec": {**template()["spec"], "nodeName": "taken"}})


def coming():
    shape = NodeShape(machine("g2-standard-12"), "pool", compute_class="llm")
    return room_of(shape, "us-central1-a")


@pytest.mark.parametrize(
    ("spec", "replicas", "count"),
    [
        ({"replicas": 2}, 5, 2),
        ({"percentage": 50}, 5, 2),
        ({"percentage": 10}, 5, 0),
        ({"replicas": 2, "percentage": 100}, 5, 2),
        ({"replicas": 4, "limits": {"nvidia.com/gpu": "3"}}, None, 3),
        ({"limits": {"cpu": "2500m"}}, None, 2),
    ],
)
def test_a_buffer_has_the_smallest_number_that_its_fields_allow(spec, replicas, count):
    assert units(spec, template(), replicas) == count


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({}, "replicas, percentage and limits are not defined"),
        ({"percentage": 10}, "replicas, percentage and limits are not defined"),
        (
            {"limits": {"google.com/tpu": "4"}},
            "resources in configured limits not found in the pod template",
        ),
    ],
)
def test_a_buffer_without_a_size_is_not_provisioned(spec, said):
    with pytest.raises(UnprovisionableError, match=said):
        units(spec, template(), None)


def test_a_quota_of_the_namespace_limits_a_buffer():
    quota = {
        "metadata": {"name": "team"},
        "status": {
            "hard": {"requests.nvidia.com/gpu": "4", "requests.cpu": "100"},
            "used": {"requests.nvidia.com/gpu": "3"},
        },
    }
    assert within_quota(template(), 3, [quota]) == (1, ("team",))
    assert within_quota(template(), 1, [quota]) == (1, ())


def test_units_take_free_nodes_and_then_nodes_that_are_being_created():
    empty, taken = node("empty"), node("taken", replica("a"))
    left, held = place(cluster(empty, taken), [coming()], virtual(3))
    assert held == {"empty"}
    assert [pod.name for pod in left] == ["capacity-buffer-spare-3"]


def test_units_do_not_use_a_node_that_is_being_drained():
    left, held = place(cluster(node("drained", unschedulable=True)), [], virtual(1))
    assert (len(left), held) == (1, set())


def test_a_unit_leaves_a_young_node_to_the_pending_pod_that_is_expected_there():
    young = node("young")
    room = young.room()
    room.take(replica("pending"))
    now = cluster(young)
    now.young = {"young": room}
    left, held = place(now, [], virtual(1))
    assert (len(left), held) == (1, set())


def test_a_unit_with_a_claim_of_devices_fits_no_node():
    claims = [{"name": "chips", "resourceClaimTemplateName": "chips"}]
    left, _ = place(cluster(node("empty")), [coming()], virtual(1, resourceClaims=claims))
    assert len(left) == 1


def test_an_older_cluster_does_not_know_capacity_buffers():
    def kinds(version):
        return {crd["spec"]["names"]["kind"] for crd in own_crds(version)}

    assert not has_kind("CapacityBuffer", "1.35.2-gke.1841999")
    assert kinds("1.36.4-gke.1") - kinds("1.35.2-gke.1841999") == {"CapacityBuffer"}
