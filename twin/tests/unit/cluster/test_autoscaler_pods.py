"""Requests of pods, and the nodes that they fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twin.cluster.autoscaler.pods import is_unschedulable, parse, refusal, requests_of
from twin.cluster.autoscaler.rungs import room_of
from twin.cluster.base.quantities import quantity
from twin.cluster.nodes.node_objects import CLASS_LABEL, NodeShape
from twin.world.machines import machine


def pod(resources=None, *, selector=None, tolerations=None, affinity=None, labels=None, name="p"):
    return {
        "metadata": {"uid": name, "namespace": "ns", "name": name, "labels": labels or {}},
        "spec": {
            "nodeSelector": selector,
            "tolerations": tolerations,
            "affinity": affinity,
            "containers": [{"resources": {"requests": resources or {"cpu": "1"}}}],
        },
    }


def room(**shape):
    return room_of(NodeShape(machine=machine("e2-standard-4"), pool="p", **shape), "us-central1-a")


@pytest.mark.parametrize(
    ("text", "value"),
    [("500m", 0.5), ("2", 2.0), ("1Gi", 2.0**30), ("1.5G", 1.5e9), ("1e3", 1000.0)],
)
def test_quantities_are_read_as_kubernetes_writes_them(text, value):
    assert quantity(text) == value


def test_what_is_no_quantity_is_refused():
    with pytest.raises(ValueError, match="4 GB"):
        quantity("4 GB")


@given(st.integers(min_value=0, max_value=10**9))
def test_a_milli_quantity_is_a_thousandth(number):
    assert quantity(f"{number}m") == pytest.approx(number / 1000)


def test_a_pod_needs_the_sum_of_its_containers_or_its_largest_init_container():
    spec = {
        "containers": [
            {"resources": {"requests": {"cpu": "1"}}},
            {"resources": {"limits": {"cpu": "2"}}},
        ],
        "initContainers": [{"resources": {"requests": {"cpu": "4", "memory": "1Gi"}}}],
    }
    assert requests_of(spec) == {"cpu": 4.0, "memory": 2.0**30}


def test_a_sidecar_counts_beside_the_containers():
    spec = {
        "containers": [{"resources": {"requests": {"cpu": "1"}}}],
        "initContainers": [{"restartPolicy": "Always", "resources": {"requests": {"cpu": "2"}}}],
    }
    assert requests_of(spec)["cpu"] == 3.0


def test_a_pod_chooses_its_class_by_selector_then_namespace_then_cluster():
    assert parse(pod(selector={CLASS_LABEL: "a"}), "b", ["default"]).compute_class == "a"
    assert parse(pod(), "b", ["default"]).compute_class == "b"
    assert parse(pod(), None, ["default"]).compute_class == "default"
    assert parse(pod(), None, ["x"]).compute_class is None


def test_a_pod_may_choose_its_class_by_affinity():
    terms = [{"matchExpressions": [{"key": CLASS_LABEL, "operator": "In", "values": ["a"]}]}]
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
        }
    }
    assert parse(pod(affinity=affinity)).compute_class == "a"


def test_a_pod_fits_where_there_is_room():
    assert refusal(parse(pod({"cpu": "3500m"})), room()) is None
    assert refusal(parse(pod({"cpu": "4"})), room()) == "Insufficient cpu"
    assert refusal(parse(pod({"nvidia.com/gpu": "1"})), room()) == "Insufficient nvidia.com/gpu"


def test_a_pod_that_was_booked_takes_its_share():
    place = room()
    place.take(parse(pod({"cpu": "3"})))
    assert refusal(parse(pod({"cpu": "1"})), place) == "Insufficient cpu"


def test_a_taint_must_be_tolerated():
    place = room(compute_class="a")
    assert "untolerated taint" in str(refusal(parse(pod()), place))
    by_key = [{"key": CLASS_LABEL, "operator": "Exists"}]
    by_value = [{"key": CLASS_LABEL, "value": "a", "effect": "NoSchedule"}]
    wrong = [{"key": CLASS_LABEL, "value": "b"}]
    assert refusal(parse(pod(tolerations=by_key)), place) is None
    assert refusal(parse(pod(tolerations=by_value)), place) is None
    assert refusal(parse(pod(tolerations=[{"operator": "Exists"}])), place) is None
    assert "untolerated" in str(refusal(parse(pod(tolerations=wrong)), place))


def test_a_selector_must_match():
    assert "selector" in str(refusal(parse(pod(selector={"x": "y"})), room()))
    assert (
        refusal(parse(pod(selector={"topology.kubernetes.io/zone": "us-central1-a"})), room())
        is None
    )


@pytest.mark.parametrize(
    ("operator", "values", "fits"),
    [
        ("In", ["us-central1-a"], True),
        ("In", ["us-central1-b"], False),
        ("NotIn", ["us-central1-a"], False),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
    ],
)
def test_node_affinity_is_honoured(operator, values, fits):
    expression = {"key": "topology.kubernetes.io/zone", "operator": operator, "values": values}
    terms = [{"matchExpressions": [expression]}]
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
        }
    }
    assert (refusal(parse(pod(affinity=affinity)), room()) is None) == fits


def test_pods_that_must_be_alone_do_not_share_a_node():
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    one = parse(pod(affinity=affinity, labels={"app": "x"}))
    two = parse(pod(affinity=affinity, labels={"app": "x"}, name="q"))
    place = room()
    place.take(one)
    assert "anti-affinity" in str(refusal(two, place))
    assert refusal(parse(pod(labels={"app": "y"})), place) is None


def test_only_pods_the_scheduler_gave_up_on_count_as_unschedulable():
    waiting = pod()
    waiting["status"] = {
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    }
    assert is_unschedulable(waiting)
    gated = pod()
    gated["status"] = {
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]
    }
    assert not is_unschedulable(gated)
    waiting["metadata"]["deletionTimestamp"] = "now"
    assert not is_unschedulable(waiting)
