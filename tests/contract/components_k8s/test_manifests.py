from typing import Any

import pulumi
import pytest

from gke_inference.base import manifests
from gke_inference.namespace.serving_namespace import ServingNamespace

NAMESPACE = "kubernetes:core/v1:Namespace"


def test_a_namespace_enforces_baseline_and_audits_more(recorder):
    recorder.run(lambda: ServingNamespace("serving", {"namespace": "serving"}).namespace)
    labels = recorder.one(NAMESPACE).inputs["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "baseline"
    assert labels["pod-security.kubernetes.io/audit"] == "restricted"


def test_a_privileged_namespace_is_asked_for(recorder):
    recorder.run(
        lambda: (
            ServingNamespace(
                "serving", {"namespace": "serving", "pod_security": "privileged"}
            ).namespace
        )
    )
    labels = recorder.one(NAMESPACE).inputs["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "privileged"


def test_an_unknown_pod_security_level_is_refused(recorder):
    args: Any = {"namespace": "s", "pod_security": "none"}
    with pytest.raises(pulumi.InputPropertyError, match=r"podSecurity.*got 'none'"):
        recorder.run(lambda: ServingNamespace("s", args).namespace)


def test_a_field_that_would_be_dropped_is_an_error(recorder):
    config = manifests.manifest("config_map", "c", "serving", binaryData={"a": "b"})
    with pytest.raises(ValueError, match=r"ConfigMap: fields \['binaryData'\]"):
        recorder.run(lambda: manifests.register("c", config, pulumi.ResourceOptions()))


def test_the_same_content_has_the_same_fingerprint_in_any_order():
    assert manifests.fingerprint({"a": 1, "b": 2}) == manifests.fingerprint({"b": 2, "a": 1})
    assert manifests.fingerprint({"a": 1}) != manifests.fingerprint({"a": 2})


@pytest.mark.parametrize(
    ("lock_name", "spec", "pods"),
    [
        ("deployment", lambda pod: {"template": {"spec": pod}}, 1),
        ("daemon_set", lambda pod: {"template": {"spec": pod}}, 1),
        ("job", lambda pod: {"template": {"spec": pod}}, 1),
        (
            "job_set",
            lambda pod: {
                "replicatedJobs": [{"template": {"spec": {"template": {"spec": pod}}}}] * 2
            },
            2,
        ),
        (
            "leader_worker_set",
            lambda pod: {
                "leaderWorkerTemplate": {
                    "leaderTemplate": {"spec": pod},
                    "workerTemplate": {"spec": pod},
                }
            },
            2,
        ),
        (
            "ray_cluster",
            lambda pod: {
                "headGroupSpec": {"template": {"spec": pod}},
                "workerGroupSpecs": [{"template": {"spec": pod}}],
            },
            2,
        ),
    ],
)
def test_pods_of_every_controller_get_no_variables_from_services(lock_name, spec, pods):
    pod = {"containers": [{"name": "engine"}]}
    made = manifests.manifest(lock_name, "a", "serving", spec=spec(pod))
    expected = {"containers": [{"name": "engine"}], "enableServiceLinks": False}
    assert made["spec"] == spec(expected)
    assert str(made).count("enableServiceLinks") == pods
