from typing import Any

import pytest

from gke_inference.operators.metrics_adapter import (
    NAME,
    NAMESPACE,
    MetricsAdapter,
    MetricsAdapterArgs,
    adapter_objects,
)

GRANT = "gcp:projects/iAMMember:IAMMember"
API = "kubernetes:apiregistration.k8s.io/v1:APIService"
PRINCIPAL = (
    "principal://iam.googleapis.com/projects/123/locations/global/workloadIdentityPools/"
    "acme.svc.id.goog/subject/ns/custom-metrics/sa/custom-metrics-stackdriver-adapter"
)


def args() -> MetricsAdapterArgs:
    return {"project": "acme", "project_number": "123"}


def build(recorder, arguments) -> str:
    return recorder.run(lambda: MetricsAdapter("adapter", arguments).principal)


def test_the_adapter_serves_the_apis_an_autoscaler_asks(recorder):
    assert build(recorder, args()) == PRINCIPAL
    specs = {name: found["spec"] for name, found in recorder.objects(API).items()}
    assert set(specs) == {
        "v1beta1.custom.metrics.k8s.io",
        "v1beta1.external.metrics.k8s.io",
        "v1beta2.custom.metrics.k8s.io",
    }
    for name, spec in specs.items():
        assert f"{spec['version']}.{spec['group']}" == name
        assert spec["service"] == {"name": NAME, "namespace": NAMESPACE, "port": 443}


def test_the_adapter_may_read_metrics_and_nothing_else_in_the_cloud(recorder):
    build(recorder, args())
    grant = recorder.one(GRANT).inputs
    assert grant == {"member": PRINCIPAL, "project": "acme", "role": "roles/monitoring.viewer"}


def test_a_grant_made_elsewhere_is_not_made_again(recorder):
    build(recorder, {**args(), "has_access": True})
    assert recorder.all(GRANT) == []
    assert len(recorder.all(API)) == 3


def test_the_service_finds_the_pods_and_every_role_bound_is_there_or_of_kubernetes():
    objects = adapter_objects()
    template: dict[str, Any] = objects["server"]["spec"]["template"]
    selector: dict[str, str] = objects["service"]["spec"]["selector"]
    assert selector.items() <= template["metadata"]["labels"].items()
    assert objects["server"]["spec"]["selector"]["matchLabels"] == selector
    assert template["spec"]["serviceAccountName"] == objects["account"]["metadata"]["name"]
    made = {obj["metadata"]["name"] for obj in objects.values() if obj["kind"] == "ClusterRole"}
    bound = {obj["roleRef"]["name"] for obj in objects.values() if "roleRef" in obj}
    assert bound - made == {"system:auth-delegator", "extension-apiserver-authentication-reader"}
    assert made <= bound


@pytest.mark.parametrize("role", ["delegator", "auth-reader", "may-read"])
def test_the_adapter_itself_is_who_may_look_pods_up(role):
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}
    assert adapter_objects()[role]["subjects"] == [subject]


def test_the_autoscaler_is_who_may_read_external_metrics():
    assert adapter_objects()["scaler"]["subjects"] == [
        {"kind": "ServiceAccount", "name": "horizontal-pod-autoscaler", "namespace": "kube-system"}
    ]


def test_autoscaling_goes_on_while_a_node_of_the_adapter_is_drained():
    made = adapter_objects()
    server, budget = made["server"]["spec"], made["budget"]["spec"]
    assert server["replicas"] == 2
    assert budget["maxUnavailable"] == 1
    assert budget["selector"] == server["selector"]
    spread = server["template"]["spec"]["topologySpreadConstraints"]
    assert spread[0]["topologyKey"] == "kubernetes.io/hostname"
