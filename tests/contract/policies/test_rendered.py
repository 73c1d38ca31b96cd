"""The rules of the pack over rendered resources, without an engine."""

from policies.framework.reading import NOT_KNOWN
from policies.pack.rendered import findings

CLUSTER = "gcp:container/cluster:Cluster"


def cluster(**inputs):
    return {
        "type": CLUSTER,
        "urn": f"urn:pulumi:prod::gke-inference::{CLUSTER}::east",
        "inputs": {"location": "us-east5", **inputs},
    }


def of(rule, *states):
    return [one.object for one in findings(states) if one.rule == rule]


def test_a_resource_that_breaks_a_rule_is_found_by_kind_and_name():
    zonal = cluster(location="us-east5-a")
    assert of("regional-cluster", zonal) == ["Cluster east"]


def test_a_resource_that_keeps_a_rule_is_not_found():
    assert of("regional-cluster", cluster()) == []


def test_a_block_that_is_missing_breaks_the_rule():
    assert of("deletion-protection", cluster()) == ["Cluster east"]


def test_a_value_that_only_the_cloud_knows_is_skipped():
    assert of("deletion-protection", cluster(deletionProtection=NOT_KNOWN)) == []


def test_a_rule_about_the_stack_sees_all_resources_together():
    deployment = {
        "type": "kubernetes:apps/v1:Deployment",
        "urn": "urn:pulumi:prod::gke-inference::kubernetes:apps/v1:Deployment::chat",
        "inputs": {
            "metadata": {"name": "chat", "namespace": "models"},
            "spec": {
                "template": {
                    "metadata": {"labels": {"app.kubernetes.io/component": "model-server"}},
                    "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
                }
            },
        },
    }
    assert of("namespace-policies", deployment) == ["Deployment chat"]
