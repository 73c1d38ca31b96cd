"""Admission of Autopilot clusters: what it adds, what it rejects, and how it answers."""

import base64
import copy
import json

import pytest

from twin.cluster.admission.decision import ADJUSTMENT, accelerator_classes, decide
from twin.cluster.admission.warden import answer, registrations

VERSION = "1.36.0-gke.1"
BEFORE_BURSTING = "1.29.0-gke.1"
GIB = {"requests": {"cpu": "1", "memory": "2Gi"}}


def pod(
    resources=None, annotations=None, owner=None, security=None, ports=None, mounts=None, **spec
):
    container = {"name": "app", "image": "app:1"}
    given = {
        "resources": resources,
        "securityContext": security,
        "ports": ports,
        "volumeMounts": mounts,
    }
    container |= {key: value for key, value in given.items() if value is not None}
    metadata = {"name": "p", "annotations": annotations or {}}
    if owner:
        metadata["ownerReferences"] = [{"kind": owner, "name": "o"}]
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def decided(workload, version=VERSION, namespace="models", classes=()):
    return decide(workload, namespace, version, classes)


def resources(workload, **given):
    return decided(workload, **given).workload["spec"]["containers"][0]["resources"]


def requests(workload, **given):
    found = resources(workload, **given)["requests"]
    return found["cpu"], found["memory"], found["ephemeral-storage"]


def selecting(compute_class):
    return {"nodeSelector": {"cloud.google.com/compute-class": compute_class}}


CLASSES = {
    "without requests": (pod(), ("500m", "2048Mi", "1024Mi")),
    "below the minimum": (
        pod({"requests": {"cpu": "20m", "memory": "32Mi"}}),
        ("50m", "52Mi", "1024Mi"),
    ),
    "with memory only": (pod({"requests": {"memory": "13Gi"}}), ("2000m", "13Gi", "1024Mi")),
    "with CPU only": (pod({"requests": {"cpu": "4"}}), ("4", "4096Mi", "1024Mi")),
    "with too little memory for its CPUs": (
        pod({"requests": {"cpu": "4", "memory": "1Gi"}}),
        ("4", "4096Mi", "1024Mi"),
    ),
    "with too few CPUs for its memory": (
        pod({"requests": {"cpu": "1", "memory": "13Gi"}}),
        ("2000m", "13Gi", "1024Mi"),
    ),
    "of a limit alone": (
        pod({"limits": {"cpu": "1", "memory": "2Gi", "ephemeral-storage": "2Gi"}}),
        None,
    ),
    "of class Balanced": (
        pod({"requests": {"cpu": "100m", "memory": "1Gi"}}, **selecting("Balanced")),
        ("250m", "1Gi", "1024Mi"),
    ),
    "of class Scale-Out": (
        pod({"requests": {"cpu": "2", "memory": "2Gi"}}, **selecting("Scale-Out")),
        ("2", "8192Mi", "1024Mi"),
    ),
    "of a DaemonSet": (pod(owner="DaemonSet"), ("50m", "100Mi", "100Mi")),
}


@pytest.mark.parametrize(("workload", "expected"), CLASSES.values(), ids=CLASSES)
def test_a_pod_has_the_requests_that_its_class_gives_it(workload, expected):
    if expected is None:
        assert decided(workload).warnings == ()
    else:
        assert requests(workload) == expected


def test_a_pod_of_a_custom_class_keeps_its_requests():
    workload = pod({"requests": {"cpu": "20m", "memory": "400Gi"}}, **selecting("interactive"))
    assert requests(workload) == ("20m", "400Gi", "1024Mi")


def test_before_bursting_limits_are_requests_in_quarters_of_a_cpu():
    workload = pod({"requests": {"cpu": "300m", "memory": "1Gi"}, "limits": {"memory": "4Gi"}})
    found = resources(workload, version=BEFORE_BURSTING)
    assert found["requests"]["cpu"] == "500m"
    assert found["limits"] == found["requests"]


def test_with_bursting_a_limit_stays_above_the_request_except_that_of_the_disk():
    limits = {"memory": "4Gi", "ephemeral-storage": "4Gi"}
    found = resources(
        pod({"requests": {**GIB["requests"], "ephemeral-storage": "2Gi"}, "limits": limits})
    )
    assert found["limits"] == {"memory": "4Gi", "ephemeral-storage": "2Gi"}


def test_a_limit_below_the_raised_request_is_raised():
    found = resources(pod({"requests": {"cpu": "4", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}))
    assert found["limits"]["memory"] == "4096Mi"


def test_the_sidecar_of_mounted_buckets_counts():
    notes = {"gke-gcsfuse/volumes": "true", "gke-gcsfuse/memory-limit": "8Gi"}
    assert requests(pod(GIB, notes))[0] == "1289m"  # 10 GiB need 1.54 CPUs, the sidecar has 0.25


def test_adjusting_a_pod_twice_changes_nothing_more():
    once = decided(pod()).workload
    assert decided(once).workload == once
    assert decided(once).warnings == ()


def test_what_was_adjusted_is_noted_on_the_pod_and_what_was_sent_is_not_changed():
    workload = pod()
    sent = copy.deepcopy(workload)
    note = json.loads(decided(workload).workload["metadata"]["annotations"][ADJUSTMENT])
    assert workload == sent
    assert note["input"] == {"containers": [{"name": "app"}]}
    assert note["output"]["containers"][0]["requests"]["cpu"] == "500m"


HOST_PATH = {"mounts": [{"name": "logs", "mountPath": "/logs", "readOnly": True}]}


def logs(path):
    return {**HOST_PATH, "volumes": [{"name": "logs", "hostPath": {"path": path}}]}


VIOLATIONS = {
    "a privileged container": (
        pod(GIB, security={"privileged": True}),
        "autogke-disallow-privilege",
        "container app is privileged; not allowed in Autopilot",
    ),
    "the host's network": (
        pod(GIB, hostNetwork=True),
        "autogke-disallow-hostnamespaces",
        "enabling hostNetwork is not allowed in Autopilot.",
    ),
    "a host port": (
        pod(GIB, ports=[{"containerPort": 80, "hostPort": 80}]),
        "autogke-no-host-port",
        "container app specifies host ports; disallowed in Autopilot.",
    ),
    "a host path that it writes to": (
        pod(GIB, mounts=[{"name": "logs", "mountPath": "/l"}], volumes=logs("/var/log")["volumes"]),
        "autogke-no-write-mode-hostpath",
        "hostPath volume logs in container app is accessed in write mode; disallowed in Autopilot.",
    ),
    "another host path": (
        pod(GIB, **logs("/var/logs")),
        "autogke-no-write-mode-hostpath",
        "hostPath volume logs used in container app uses path /var/logs which is not allowed in"
        " Autopilot. Allowed path prefixes for hostPath volumes are: [/var/log/].",
    ),
    "node affinity by host": (
        pod(
            GIB,
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {
                                "matchExpressions": [
                                    {"key": "kubernetes.io/hostname", "operator": "Exists"}
                                ]
                            }
                        ]
                    }
                }
            },
        ),
        "autogke-node-affinity-selector-limitation",
        "node affinity by kubernetes.io/hostname is not allowed in Autopilot.",
    ),
    "more CPUs than the class has": (
        pod({"requests": {"cpu": "31", "memory": "40Gi"}}),
        "autogke-pod-limit-constraints",
        "Total cpu requested by containers is '31', higher than the Autopilot maximum of '30'.",
    ),
    "more disk than nodes give": (
        pod({"requests": {**GIB["requests"], "ephemeral-storage": "11Gi"}}),
        "autogke-pod-limit-constraints",
        "Total ephemeral-storage requested by containers is '11Gi', higher than the Autopilot"
        " maximum of '10Gi'.",
    ),
}


@pytest.mark.parametrize(("workload", "constraint", "text"), VIOLATIONS.values(), ids=VIOLATIONS)
def test_a_pod_is_rejected_for(workload, constraint, text):
    assert decided(workload).violations == {constraint: [text]}


@pytest.mark.parametrize("added", ["NET_ADMIN", "NET_RAW", "CAP_SYS_ADMIN", "IPC_LOCK"])
def test_a_capability_beyond_the_list_is_rejected(added):
    found = decided(pod(GIB, security={"capabilities": {"add": ["CHOWN", added]}})).violations
    (text,) = found["autogke-default-linux-capabilities"]
    assert text.startswith(f"linux capability '{added}' on container 'app' not allowed;")


def test_logs_of_the_host_can_be_read():
    assert decided(pod(GIB, **logs("/var/log/pods"))).violations == {}


def test_workloads_of_users_have_no_place_in_kube_system():
    assert list(decided(pod(GIB), namespace="kube-system").violations) == [
        "managed-namespaces-limitation"
    ]


GPU = {"limits": {"nvidia.com/gpu": "1"}}
TPU = {"limits": {"google.com/tpu": "4"}}
KINDS = {
    "a GPU by its type": (GPU, {"cloud.google.com/gke-accelerator": "nvidia-l4"}, True),
    "a GPU by a class": (GPU, {"cloud.google.com/compute-class": "chips"}, True),
    "a GPU by a class without accelerators": (
        GPU,
        {"cloud.google.com/compute-class": "cpus"},
        False,
    ),
    "a GPU by nothing": (GPU, {}, False),
    "a TPU by type and topology": (
        TPU,
        {
            "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
            "cloud.google.com/gke-tpu-topology": "2x2",
        },
        True,
    ),
    "a TPU without a topology": (
        TPU,
        {"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice"},
        False,
    ),
}


@pytest.mark.parametrize(("asked", "selector", "is_admitted"), KINDS.values(), ids=KINDS)
def test_a_pod_selects(asked, selector, is_admitted):
    given = [
        {"metadata": {"name": "chips"}, "spec": {"priorities": [{"gpu": {"type": "nvidia-l4"}}]}},
        {"metadata": {"name": "cpus"}, "spec": {"priorities": [{"machineFamily": "n4"}]}},
    ]
    classes = accelerator_classes(given)
    assert classes == {"chips"}
    found = decided(pod(asked, nodeSelector=selector), classes=classes).violations
    assert (found == {}) == is_admitted


def deployment(template):
    return {
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"template": {key: template[key] for key in ("metadata", "spec")}},
    }


def test_a_workload_is_judged_by_its_pods_and_left_as_it_is():
    found = decided(deployment(pod(hostPID=True)))
    assert list(found.violations) == ["autogke-disallow-hostnamespaces"]
    assert found.workload == deployment(pod(hostPID=True))
    assert found.warnings == (
        "autopilot-default-resources-mutator:Autopilot updated Deployment models/d: adjusted"
        " resources to meet requirements for containers [app] (see http://g.co/gke/autopilot-resources)",
    )


def review(workload):
    request = {"uid": "u", "object": workload, "kind": {"kind": workload["kind"]}}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def test_the_mutating_webhook_answers_with_a_patch_of_the_pod():
    workload = pod()
    response = answer(review(workload), decided(workload), mutates=True)["response"]
    patch = json.loads(base64.b64decode(response["patch"]))
    assert response["allowed"] is True
    assert [each["path"] for each in patch] == ["/metadata", "/spec"]
    assert patch[1]["value"]["containers"][0]["resources"]["requests"]["cpu"] == "500m"
    assert len(response["warnings"]) == 1


def test_the_validating_webhook_answers_with_what_is_violated():
    workload = pod(GIB, security={"privileged": True})
    response = answer(review(workload), decided(workload), mutates=False)["response"]
    assert response["allowed"] is False
    assert response["status"]["message"] == (
        "GKE Warden rejected the request because it violates one or more constraints.\n"
        'Violations details: {"[denied by autogke-disallow-privilege]": ["container app is'
        ' privileged; not allowed in Autopilot"]}'
    )


def test_only_new_pods_are_adjusted_and_all_workloads_are_judged():
    mutating, validating = registrations(8443, b"pem")
    assert [rule["resources"] for rule in mutating["webhooks"][0]["rules"]] == [["pods"]]
    assert {kind for rule in validating["webhooks"][0]["rules"] for kind in rule["resources"]} == {
        "cronjobs",
        "daemonsets",
        "deployments",
        "jobs",
        "pods",
        "replicasets",
        "statefulsets",
    }
    assert validating["webhooks"][0]["failurePolicy"] == "Fail"
