"""Nodes for pods: pools, compute classes, stock-outs, preemption, migration."""

import json
import time
from typing import Any

import pytest

from gke_inference.observability.monitoring import recording_rules
from twin.cluster.nodes.pools import is_ready
from twin.wire.kube import KubeError

pytestmark = pytest.mark.needs_tools

L4 = {"machineType": "g2-standard-12", "gpu": {"type": "nvidia-l4", "count": 1}}
V6E = {"tpu": {"type": "tpu-v6e-slice", "count": 4, "topology": "2x2"}}
CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
SPOT_TAINT = {"key": "cloud.google.com/gke-spot", "operator": "Exists"}


def compute_class(name, *rules, **spec):
    return {
        "apiVersion": "cloud.google.com/v1",
        "kind": "ComputeClass",
        "metadata": {"name": name},
        "spec": {
            "whenUnsatisfiable": "DoNotScaleUp",
            "nodePoolAutoCreation": {"enabled": True},
            "autoscalingPolicy": {"consolidationDelayMinutes": 1},
            "priorities": list(rules),
            **spec,
        },
    }


def workload(name, replicas=1, resource="nvidia.com/gpu", amount="1", **spec):
    container = {
        "name": "c",
        "image": "x",
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {resource: amount}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "nodeSelector": {"cloud.google.com/compute-class": name},
                    "tolerations": [SPOT_TAINT],
                    "containers": [container],
                    **spec,
                },
            },
        },
    }


def rungs(nodes):
    return sorted(node["metadata"]["annotations"]["gke-inference.dev/rung"] for node in nodes)


def pool_file(cluster, name):
    return cluster.ctx.dir / "pools" / f"{name}.json"


def write_pool(cluster, name, zones=("us-central1-a", "us-central1-b"), **inputs):
    pool_file(cluster, name).write_text(
        json.dumps({"name": name, "zones": list(zones), "inputs": inputs})
    )


def status(cluster, name):
    file = cluster.ctx.dir / "pools" / f"{name}.status.json"
    return json.loads(file.read_text()) if file.exists() else {}


def remove_pool(cluster, name):
    pool_file(cluster, name).unlink()
    cluster.until(lambda: not status(cluster, name), f"pool {name} gone")
    assert not cluster.nodes(**{"cloud.google.com/gke-nodepool": name})


def test_a_pool_gets_its_nodes_and_takes_them_with_it(cluster):
    write_pool(cluster, "system", nodeCount=1, nodeConfig={"machineType": "e2-standard-4"})
    cluster.until(lambda: status(cluster, "system").get("ready") == 2, "two nodes ready")
    nodes = cluster.nodes(**{"cloud.google.com/gke-nodepool": "system"})
    zones = {node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in nodes}
    assert zones == {"us-central1-a", "us-central1-b"}
    remove_pool(cluster, "system")


def test_a_pool_the_world_has_nothing_for_says_so(cluster):
    cluster.world(stock=[{"zone": "*", "accelerator": "nvidia-l4", "chips": 0}])
    write_pool(cluster, "l4", nodeCount=1, nodeConfig={"machineType": "g2-standard-12"})
    error = cluster.until(lambda: status(cluster, "l4").get("error"), "an error")
    assert error.startswith("GCE_STOCKOUT")
    cluster.world()
    cluster.until(lambda: status(cluster, "l4").get("ready") == 2, "nodes once there is capacity")
    remove_pool(cluster, "l4")


def test_a_quota_that_is_too_small_fails_a_pool_and_leads_to_the_next_rung(cluster):
    region = "us-central1"
    cpus = {"metric": "CPUS", "region": region, "limit": 4}
    cluster.world(quota=[cpus, {"accelerator": "nvidia-l4", "region": region, "chips": 1}])
    write_pool(cluster, "cpus", nodeCount=1, nodeConfig={"machineType": "e2-standard-4"})
    cluster.apply(compute_class("short", L4, {**L4, "spot": True}), workload("short", 2))
    error = cluster.until(lambda: status(cluster, "cpus").get("error"), "an error")
    assert error == (
        "GCE_QUOTA_EXCEEDED: Quota 'CPUS' exceeded.  Limit: 4.0 in region us-central1."
    )
    cluster.until(lambda: len(cluster.running("short")) == 2, "both replicas")
    assert rungs(cluster.nodes_of("short")) == ["0", "1"]
    told = [
        event["message"] for event in cluster.ctx.events.read() if event["kind"] == "rung.quota"
    ]
    assert "Quota 'NVIDIA_L4_GPUS' exceeded.  Limit: 1.0 in region us-central1." in told
    cluster.world()
    cluster.until(lambda: status(cluster, "cpus").get("ready") == 2, "nodes once there is quota")
    remove_pool(cluster, "cpus")
    cluster.remove("short")


def test_a_stock_out_leads_to_the_next_rung(cluster):
    reservation = {"affinity": "Specific", "specific": [{"name": "r", "zones": ["us-central1-a"]}]}
    line = {"zone": "*", "accelerator": "nvidia-l4", "provisioning": "reservation"}
    cluster.world(stock=[{**line, "reservation": "r", "chips": 1}])
    cluster.apply(
        compute_class("fall", {**L4, "reservations": reservation}, L4), workload("fall", 2)
    )
    cluster.until(lambda: len(cluster.running("fall")) == 2, "both replicas")
    assert rungs(cluster.nodes_of("fall")) == ["0", "1"]
    requested = [event for event in cluster.ctx.events.read() if event["kind"] == "node.requested"]
    assert len([event for event in requested if event["compute_class"] == "fall"]) == 2
    assert {"TriggeredScaleUp", "FailedScaleUp"} <= cluster.reasons("fall")
    assert {"rung.chosen", "rung.stockout", "rung.cooldown", "pod.pending"} <= set(cluster.kinds())
    cluster.remove("fall")


def test_nodes_with_a_disk_image_come_once_the_image_exists(cluster):
    cluster.world()
    disk = {"diskImageName": "engines", "project": "acme-images", "mode": "CONTAINER_IMAGE_CACHE"}
    rule = {**L4, "storage": {"secondaryBootDisks": [disk]}}
    cluster.apply(compute_class("cached", rule), workload("cached"))
    cluster.until(lambda: "FailedScaleUp" in cluster.reasons("cached"), "a refusal")
    path = "projects/acme-images/global/images/engines"
    said = [
        event["message"] for event in cluster.ctx.events.read() if event["kind"] == "rung.stockout"
    ]
    assert said[-1] == f"The resource '{path}' was not found"
    assert cluster.nodes_of("cached") == []
    cluster.world(images=[path])
    cluster.until(lambda: cluster.running("cached"), "the replica")
    cluster.remove("cached")


def test_a_pod_no_rung_can_hold_is_told_why(cluster):
    cluster.world()
    cluster.apply(compute_class("small", L4), workload("small", amount="2"))
    cluster.until(lambda: "NotTriggerScaleUp" in cluster.reasons("small"), "an event")
    assert cluster.nodes_of("small") == []
    cluster.remove("small")


def volume_in(zone):
    """Return a volume with a disk in a zone, and the claim bound to it."""
    term = {"key": "topology.gke.io/zone", "operator": "In", "values": [zone]}
    size, storage = {"storage": "10Gi"}, "given"
    spec = {"accessModes": ["ReadOnlyMany"], "storageClassName": storage}
    handle = f"projects/acme/zones/{zone}/disks/weights"
    return (
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "weights"},
            "spec": {
                **spec,
                "capacity": size,
                "claimRef": {"name": "weights", "namespace": "default"},
                "csi": {"driver": "pd.csi.storage.gke.io", "volumeHandle": handle},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "weights", "namespace": "default"},
            "spec": {**spec, "resources": {"requests": size}, "volumeName": "weights"},
        },
    )


def test_a_pod_with_a_disk_gets_a_node_in_the_zone_of_the_disk_or_the_reason_why_not(cluster):
    cluster.world()
    elsewhere = {**L4, "location": {"zones": ["us-central1-a"]}}
    claimed: dict[str, Any] = {
        "volumes": [{"name": "w", "persistentVolumeClaim": {"claimName": "weights"}}]
    }
    cluster.apply(*volume_in("us-central1-b"))
    cluster.apply(compute_class("zonal", elsewhere, L4), workload("zonal", 2, **claimed))
    cluster.apply(compute_class("far", elsewhere), workload("far", **claimed))
    cluster.until(lambda: len(cluster.running("zonal")) == 2, "both replicas")
    nodes = cluster.nodes_of("zonal")
    assert {node["metadata"]["labels"]["topology.gke.io/zone"] for node in nodes} == {
        "us-central1-b"
    }
    names = {item["metadata"]["name"] for item in cluster.kube.list(CSI_NODES)}
    assert names >= {node["metadata"]["name"] for node in nodes}
    affinity = (
        "pod didn't trigger scale-up: 1 node(s) didn't match PersistentVolume's node affinity"
    )
    cluster.until(lambda: affinity in cluster.said("far"), "an event")
    cluster.remove("zonal", "far")
    gone = {node["metadata"]["name"] for node in nodes}
    cluster.until(
        lambda: not gone & {item["metadata"]["name"] for item in cluster.kube.list(CSI_NODES)},
        "the nodes' limits gone",
    )


def test_a_multi_host_slice_comes_and_goes_as_a_whole(cluster):
    cluster.world()
    slice_rule = {"tpu": {"type": "tpu-v6e-slice", "count": 4, "topology": "4x4"}}
    cluster.apply(compute_class("slice", slice_rule), workload("slice", 4, "google.com/tpu", "4"))
    cluster.until(lambda: len(cluster.running("slice")) == 4, "four hosts serve")
    nodes = cluster.nodes_of("slice")
    assert len(nodes) == 4
    assert len({n["metadata"]["labels"]["cloud.google.com/gke-nodepool"] for n in nodes}) == 1
    cluster.remove("slice")


def test_a_preempted_spot_node_goes_and_its_work_moves_to_the_next_rung(cluster):
    cluster.world()
    cluster.apply(compute_class("spot", {**L4, "spot": True}, L4), workload("spot"))
    cluster.until(lambda: cluster.running("spot"), "the replica")
    assert rungs(cluster.nodes_of("spot")) == ["0"]
    gone = {"zone": "*", "accelerator": "nvidia-l4", "provisioning": "spot", "chips": 0}
    cluster.world(stock=[gone])

    def moved():
        return cluster.running("spot") and rungs(cluster.nodes_of("spot")) == ["1"]

    cluster.until(moved, "the replica on the second rung")
    assert "node.notice" in cluster.kinds()
    cluster.world()
    cluster.remove("spot")


def test_work_moves_back_when_the_better_rung_has_capacity_again(cluster):
    line = {"zone": "*", "accelerator": "nvidia-l4", "provisioning": "on-demand"}
    cluster.world(stock=[{**line, "chips": 0}])
    migration = {"activeMigration": {"optimizeRulePriority": True}}
    cluster.apply(compute_class("back", L4, {**L4, "spot": True}, **migration), workload("back"))
    cluster.until(lambda: cluster.running("back"), "the replica on spot")
    assert rungs(cluster.nodes_of("back")) == ["1"]
    cluster.world()

    def moved():
        return cluster.running("back") and rungs(cluster.nodes_of("back")) == ["0"]

    cluster.until(moved, "the replica on demand")
    cluster.remove("back")


def test_a_reservation_in_calendar_mode_is_used_in_its_period_and_left_at_its_end(cluster):
    named = {"affinity": "Specific", "specific": [{"name": "week", "zones": ["us-central1-a"]}]}
    start, end = "2027-01-11T08:00:00Z", "2027-01-18T08:00:00Z"
    reservation = {
        "zone": "us-central1-a",
        "accelerator": "nvidia-l4",
        "provisioning": "reservation",
        "reservation": "week",
        "chips": 1,
        "start": start,
        "end": end,
    }
    migration = {"activeMigration": {"optimizeRulePriority": True}}

    def it_is(date):
        cluster.world(stock=[reservation], clock={"date": date})

    def serves_on(rung):
        return cluster.running("week") and rungs(cluster.nodes_of("week")) == [rung]

    it_is("2027-01-11T07:59:00Z")
    rules = ({**L4, "reservations": named}, L4)
    cluster.apply(compute_class("week", *rules, **migration), workload("week"))
    cluster.until(lambda: serves_on("1"), "the replica on demand before the start")
    it_is(start)
    cluster.until(lambda: serves_on("0"), "the replica in the reservation after the start")
    before = len(cluster.ctx.events.read())
    it_is("2027-01-18T07:59:45Z")  # within the notice
    cluster.until(lambda: serves_on("1"), "the replica on demand before the end")
    notice = [
        event["message"]
        for event in cluster.ctx.events.read()[before:]
        if event["kind"] == "node.notice"
    ]
    assert notice == ["reservation ended"]
    cluster.world()
    cluster.remove("week")


def test_flex_start_waits_in_the_queue_and_then_gives_up(cluster):
    flex = {**L4, "flexStart": {"enabled": True}, "capacityCheckWaitTimeSeconds": 300}
    line = {"zone": "*", "accelerator": "nvidia-l4", "provisioning": "flex-start"}
    cluster.world(stock=[{**line, "chips": 0}])
    cluster.apply(compute_class("flex", flex, L4), workload("flex"))
    cluster.until(lambda: cluster.running("flex"), "the replica")
    assert rungs(cluster.nodes_of("flex")) == ["1"]
    cluster.world()
    cluster.remove("flex")


def test_a_class_of_hand_made_pools_grows_the_first_that_can(cluster):
    cluster.world(stock=[{"zone": "*", "accelerator": "tpu-v6e", "chips": 0}])
    label = {"cloud.google.com/compute-class": "dual"}
    for name, kind in (("dual-tpu", "ct6e-standard-4t"), ("dual-gpu", "g2-standard-12")):
        config = {"machineType": kind, "labels": label}
        scaling = {"minNodeCount": 0, "maxNodeCount": 2}
        write_pool(cluster, name, nodeConfig=config, autoscaling=scaling)
    exists = [{"key": key, "operator": "Exists"} for key in ("google.com/tpu", "nvidia.com/gpu")]
    both = workload("dual", resource="cpu", amount="1")
    both["spec"]["template"]["spec"]["tolerations"] = exists
    cluster.apply(
        compute_class("dual", {"nodepools": ["dual-tpu"]}, {"nodepools": ["dual-gpu"]}), both
    )
    cluster.until(lambda: cluster.running("dual"), "the replica")
    [node] = cluster.nodes_of("dual")
    assert node["metadata"]["labels"]["cloud.google.com/gke-nodepool"] == "dual-gpu"
    path = "/apis/cloud.google.com/v1/computeclasses/dual"
    [condition] = cluster.kube.get(path)["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Health", "True")
    cluster.world()
    cluster.remove("dual")
    remove_pool(cluster, "dual-tpu")
    remove_pool(cluster, "dual-gpu")


def test_a_capacity_buffer_has_its_nodes_before_the_pods_and_is_refilled(cluster):
    cluster.world()
    path = "/apis/autoscaling.x-k8s.io/v1beta1/namespaces/default/capacitybuffers/spare"
    spec = {
        "scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "spare"},
        "replicas": 1,
    }
    buffer = {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": "spare", "namespace": "default"},
        "spec": spec,
    }
    with pytest.raises(KubeError, match="either PodTemplateRef or ScalableRef"):
        cluster.apply({**buffer, "spec": {**spec, "podTemplateRef": {"name": "spare"}}})
    own = {"key": "cloud.google.com/compute-class", "operator": "Equal", "value": "spare"}
    tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists"}, SPOT_TAINT, own]
    cluster.apply(compute_class("spare", L4), workload("spare", 0, tolerations=tolerations), buffer)
    cluster.until(lambda: len(cluster.nodes_of("spare")) == 1, "a node without a pod")
    [first] = cluster.nodes_of("spare")
    name = first["metadata"]["name"]
    cluster.until(lambda: is_ready(cluster.kube.get(f"/api/v1/nodes/{name}")), "a ready node")
    status = cluster.kube.get(path)["status"]
    assert (status["replicas"], status["podTemplateRef"]["name"]) == (
        1,
        "capacitybuffer-spare-pod-template",
    )
    assert {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]} == {
        "ReadyForProvisioning": ("True", "AttributesSetSuccessfully"),
        "Provisioning": ("True", "FakePodsInjected"),
    }
    cluster.apply(workload("spare", 1, tolerations=tolerations))
    cluster.until(lambda: cluster.running("spare"), "the replica")
    [pod] = cluster.running("spare")
    assert pod["spec"]["nodeName"] == name
    cluster.until(lambda: len(cluster.nodes_of("spare")) == 2, "the buffer refilled")
    assert "TriggeredScaleUp" not in cluster.reasons("spare")
    cluster.apply(workload("spare", 0, tolerations=tolerations))
    cluster.until(lambda: len(cluster.nodes_of("spare")) == 1, "one empty node removed")
    time.sleep(2)  # 400 s on the cluster's clock, in which empty nodes of the class go
    assert len(cluster.nodes_of("spare")) == 1
    cluster.kube.delete(path)
    cluster.until(lambda: not cluster.nodes_of("spare"), "no nodes without a buffer")
    cluster.remove("spare")


def test_a_zone_that_is_lost_takes_its_nodes_and_work_goes_elsewhere(cluster):
    cluster.world()
    cluster.apply(compute_class("zone", L4), workload("zone"))
    cluster.until(lambda: cluster.running("zone"), "the replica")

    def zones():
        return {
            node["metadata"]["labels"]["topology.kubernetes.io/zone"]
            for node in cluster.nodes_of("zone")
        }

    assert zones() == {"us-central1-a"}
    cluster.world(outages=["*-a"])
    cluster.until(
        lambda: cluster.running("zone") and zones() == {"us-central1-b"}, "the other zone"
    )
    cluster.world()
    cluster.remove("zone")


def test_controllers_that_were_restarted_carry_on(cluster):
    cluster.world()
    cluster.apply(compute_class("again", L4), workload("again"))
    cluster.until(lambda: cluster.running("again"), "the replica")
    cluster.stop()
    cluster.apply(workload("again", 2))
    cluster.start()
    cluster.until(lambda: len(cluster.running("again")) == 2, "the second replica")
    cluster.remove("again")


def test_the_autoscaler_sees_pods_without_a_node_as_a_metric_that_goes_back_to_zero(cluster):
    [rule] = recording_rules("m", "default", "unplaced")
    rules = {
        "apiVersion": "monitoring.googleapis.com/v1",
        "kind": "Rules",
        "metadata": {"name": "unplaced", "namespace": "default"},
        "spec": {"groups": [{"name": "g", "interval": "15s", "rules": [rule]}]},
    }
    cluster.world(stock=[{"zone": "*", "accelerator": "nvidia-l4", "chips": 0}])
    cluster.apply(rules, compute_class("unplaced", L4), workload("unplaced", 3))
    metric = "prometheus.googleapis.com%7Cgke_inference:unplaced_replicas%7Cgauge"
    path = f"/apis/external.metrics.k8s.io/v1beta1/namespaces/default/{metric}"

    def value():
        try:
            items = cluster.kube.get(path, labelSelector="metric.labels.model=m")["items"]
        except Exception:  # noqa: BLE001 - the aggregated API takes a moment to be there
            return None
        return items and items[0]["value"]

    cluster.until(lambda: value() == "3", "three unplaced replicas")
    assert cluster.kube.get(path, labelSelector="metric.labels.model=other")["items"] == []
    cluster.world()
    cluster.until(lambda: value() == "0", "none unplaced")
    cluster.remove("unplaced")
