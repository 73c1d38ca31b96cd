"""GKE's objects on a real API server: accepted, and strict."""

import json
import threading

import pytest

from twin.cluster.controlplane import bootstrap, kinds, stored_kinds
from twin.wire.kube import KubeError

pytestmark = pytest.mark.needs_tools

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TARGET = {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "p"}
L4 = {"machineType": "g2-standard-12", "gpu": {"type": "nvidia-l4", "count": 1}}


def compute_class(rule=None, **spec):
    return {
        "apiVersion": "cloud.google.com/v1",
        "kind": "ComputeClass",
        "metadata": {"name": spec.pop("name", "llm")},
        "spec": {"whenUnsatisfiable": "DoNotScaleUp", "priorities": [rule or L4], **spec},
    }


def namespaced(version, kind, spec):
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "x", "namespace": "default"},
        "spec": spec,
    }


def networking(kind, spec):
    return namespaced("networking.gke.io/v1", kind, spec)


def monitoring(kind, spec):
    return namespaced("monitoring.googleapis.com/v1", kind, spec)


HEALTH = {"type": "HTTP", "httpHealthCheck": {"port": 8000, "requestPath": "/health"}}
SPECIFIC = {"affinity": "Specific", "specific": [{"name": "r", "zones": ["us-central1-a"]}]}
ENDPOINT = {"port": "http", "interval": "15s"}
RULE = {"record": "a:b", "expr": "sum(up)", "labels": {"model": "m"}}
CHAIN = {
    "name": "c",
    "extensions": [
        {
            "name": "e",
            "authority": "router.local",
            "supportedEvents": ["RequestHeaders", "RequestBody", "RequestTrailers"],
            "requestBodySendMode": "FullDuplexStreamed",
            "backendRef": {"group": "", "kind": "Service", "name": "s", "port": 9004},
        }
    ],
}
GATEWAY = {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "g"}

ACCEPTED = {
    "a class with every consumption option": compute_class(
        nodePoolAutoCreation={"enabled": True},
        activeMigration={"optimizeRulePriority": True},
        priorities=[
            {
                "tpu": {"type": "tpu-v6e-slice", "count": 4, "topology": "2x2"},
                "reservations": SPECIFIC,
            },
            L4,
            {**L4, "flexStart": {"enabled": True, "nodeRecycling": {"leadTimeSeconds": 3600}}},
            {**L4, "spot": True, "maxPodsPerNode": 32},
        ],
    ),
    "a class of hand-made pools": compute_class({"nodepools": ["a", "b"]}),
    "pod monitoring": monitoring(
        "PodMonitoring", {"selector": {"matchLabels": {"a": "b"}}, "endpoints": [ENDPOINT]}
    ),
    "rules": monitoring("Rules", {"groups": [{"name": "g", "interval": "15s", "rules": [RULE]}]}),
    "a backend policy": networking(
        "GCPBackendPolicy", {"default": {"timeoutSec": 300}, "targetRef": TARGET}
    ),
    "a health check": networking(
        "HealthCheckPolicy", {"default": {"config": HEALTH}, "targetRef": TARGET}
    ),
    "a routing extension": networking(
        "GCPRoutingExtension", {"targetRefs": [GATEWAY], "extensionChains": [CHAIN]}
    ),
    "a data source": namespaced(
        "datalayer.gke.io/v1", "GCPDataSource", {"cloudStorage": {"uri": "gs://b/m/"}}
    ),
}
REFUSED = {
    "an unknown field": (compute_class({**L4, "zone": "a"}), "zone"),
    "a field that is missing": (compute_class(nodePoolGroup={}), "nodePoolGroup.name"),
    "a word that is not in the list": (compute_class(whenUnsatisfiable="Wait"), "Wait"),
    "a number out of bounds": (compute_class({**L4, "maxPodsPerNode": 300}), "256"),
    "zones beside a specific reservation": (
        compute_class({**L4, "reservations": SPECIFIC, "location": {"zones": ["us-central1-a"]}}),
        "location.zones",
    ),
    "a specific reservation without a name": (
        compute_class({**L4, "reservations": {"affinity": "Specific"}}),
        "specific",
    ),
    "spot and flex-start in one rule": (
        compute_class({**L4, "spot": True, "flexStart": {"enabled": True}}),
        "Flex Start",
    ),
    "flex-start on a reservation": (
        compute_class({**L4, "reservations": SPECIFIC, "flexStart": {"enabled": True}}),
        "reservations",
    ),
    "pools beside a machine type": (compute_class({**L4, "nodepools": ["a"]}), "Nodepool field"),
    "a score on some rules only": (
        compute_class(priorities=[{**L4, "priorityScore": 2}, L4]),
        "riority",
    ),
    "a reserved class name": (compute_class(name="gke-mine"), "reserved"),
    "a monitoring endpoint without a port": (
        monitoring("PodMonitoring", {"selector": {}, "endpoints": [{"interval": "15s"}]}),
        "port",
    ),
    "a rule without an expression": (
        monitoring(
            "Rules", {"groups": [{"name": "g", "interval": "15s", "rules": [{"record": "a"}]}]}
        ),
        "expr",
    ),
    "a timeout of zero": (
        networking("GCPBackendPolicy", {"default": {"timeoutSec": 0}, "targetRef": TARGET}),
        "timeoutSec",
    ),
    "session affinity on an inference pool": (
        networking(
            "GCPBackendPolicy",
            {"default": {"sessionAffinity": {"type": "CLIENT_IP"}}, "targetRef": TARGET},
        ),
        "ession",
    ),
    "a health check of another type than its block": (
        networking(
            "HealthCheckPolicy",
            {"default": {"config": {**HEALTH, "type": "GRPC"}}, "targetRef": TARGET},
        ),
        "GRPC",
    ),
    "an extension without an authority": (
        networking(
            "GCPRoutingExtension",
            {
                "targetRefs": [GATEWAY],
                "extensionChains": [
                    {
                        **CHAIN,
                        "extensions": [
                            {k: v for k, v in CHAIN["extensions"][0].items() if k != "authority"}
                        ],
                    }
                ],
            },
        ),
        "uthority",
    ),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_what_the_documentation_shows_is_accepted(control_plane, case):
    answer = control_plane.kube.apply(ACCEPTED[case], manager="test", dry_run=True)
    assert answer["metadata"]["uid"]


@pytest.mark.parametrize("case", REFUSED)
def test_what_gke_refuses_is_refused(control_plane, case):
    obj, word = REFUSED[case]
    with pytest.raises(KubeError, match=word):
        control_plane.kube.apply(obj, manager="test", dry_run=True)


def has_fields(crd):
    """Return whether a kind has a spec with fields that users set."""
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema["properties"].get("spec", {}).keys() != {"type"}


@pytest.mark.parametrize(
    "crd",
    list(filter(has_fields, kinds.own_crds())),
    ids=lambda crd: crd["spec"]["names"]["kind"],
)
def test_every_kind_of_gke_is_served_and_refuses_an_unknown_field(control_plane, crd):
    version = crd["spec"]["versions"][0]["name"]
    obj = {
        "apiVersion": f"{crd['spec']['group']}/{version}",
        "kind": crd["spec"]["names"]["kind"],
        "metadata": {"name": "x"},
        "spec": {"nothingLikeIt": 1},
    }
    if crd["spec"]["scope"] == "Namespaced":
        obj["metadata"]["namespace"] = "default"
    with pytest.raises(KubeError, match=r"nothingLikeIt|spec: field not declared"):
        control_plane.kube.apply(obj, manager="test", dry_run=True)


def test_a_later_cluster_has_gkes_kinds_from_its_start_as_its_own(control_plane):
    kept = stored_kinds.read(kinds.key(control_plane.spec.version))
    names = {crd["metadata"]["name"] for crd in kinds.gke_crds(control_plane.spec.version)}
    assert {crd["metadata"]["name"] for crd in kept} == names
    found = [
        crd["metadata"] for crd in control_plane.kube.list(CRDS) if crd["metadata"]["name"] in names
    ]
    # etcd counts its writes, and an API server that starts with an empty one writes hundreds
    assert max(int(crd["resourceVersion"]) for crd in found) <= len(names) + 1
    assert len({crd["uid"] for crd in found}) == len(names)
    assert not any("uid" in crd["metadata"] for crd in kept)


def test_a_second_installation_changes_nothing(control_plane):
    before = {
        crd["metadata"]["name"]: crd["metadata"]["generation"]
        for crd in control_plane.kube.list(CRDS)
    }
    bootstrap.install(control_plane, threading.Event())
    after = {
        crd["metadata"]["name"]: crd["metadata"]["generation"]
        for crd in control_plane.kube.list(CRDS)
    }
    assert after == before


def test_the_cluster_says_when_it_is_ready(control_plane):
    ready = json.loads((control_plane.dir / "ready.json").read_text())
    assert ready["crds"] > len(kinds.own_crds())


def test_gateway_and_storage_classes_of_gke_are_there(control_plane):
    kube = control_plane.kube
    gateways = kube.list("/apis/gateway.networking.k8s.io/v1/gatewayclasses")
    accepted = {
        item["metadata"]["name"]: item["status"]["conditions"][0]["status"] for item in gateways
    }
    assert accepted["gke-l7-regional-external-managed"] == "True"
    classes = {
        item["metadata"]["name"] for item in kube.list("/apis/storage.k8s.io/v1/storageclasses")
    }
    assert {"standard-rwo", "premium-rwo"} <= classes


def pod(name, namespace="default", **spec):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "c", "image": "x"}], **spec},
    }


def test_a_pod_that_selects_a_class_tolerates_its_taint(control_plane):
    selector = {"cloud.google.com/compute-class": "llm"}
    answer = control_plane.kube.apply(pod("a", nodeSelector=selector), manager="test", dry_run=True)
    toleration = {
        "key": "cloud.google.com/compute-class",
        "operator": "Equal",
        "value": "llm",
        "effect": "NoSchedule",
    }
    assert toleration in answer["spec"]["tolerations"]


def test_a_pod_takes_the_default_class_of_its_namespace(control_plane):
    labels = {"cloud.google.com/default-compute-class": "llm"}
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "d", "labels": labels},
    }
    control_plane.kube.apply(namespace, manager="test")
    answer = control_plane.kube.apply(pod("a", "d"), manager="test", dry_run=True)
    assert answer["spec"]["nodeSelector"] == {"cloud.google.com/compute-class": "llm"}
    assert any(item.get("value") == "llm" for item in answer["spec"]["tolerations"])


def test_a_pod_without_a_class_is_left_alone(control_plane):
    answer = control_plane.kube.apply(pod("a"), manager="test", dry_run=True)
    assert not any(
        "compute-class" in str(item.get("key")) for item in answer["spec"]["tolerations"]
    )
