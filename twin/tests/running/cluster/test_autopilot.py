"""The webhooks of an Autopilot cluster, called by a real API server."""

import json

import pytest

from twin.cluster.admission import warden
from twin.cluster.admission.decision import ADJUSTMENT
from twin.wire.kube import KubeError

pytestmark = pytest.mark.needs_tools

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1"


@pytest.fixture
def autopilot(control_plane):
    """The API server with the webhooks, which it does not call after the test."""
    warden.start(control_plane)
    yield control_plane.kube
    for kind, name in (
        ("mutatingwebhookconfigurations", warden.MUTATING),
        ("validatingwebhookconfigurations", warden.VALIDATING),
    ):
        control_plane.kube.delete(f"{REGISTRATIONS}/{kind}/{name}")


def pod(**spec):
    container = {"name": "app", "image": "app:1", **spec}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "autopilot", "namespace": "default"},
        "spec": {"containers": [container], "schedulerName": "nobody"},
    }


def deployment(**spec):
    labels = {"app": "autopilot"}
    template = {"metadata": {"labels": labels}, "spec": pod(**spec)["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "autopilot", "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def test_the_api_server_stores_pods_as_autopilot_adjusts_them_and_rejects_what_it_does(autopilot):
    made = autopilot.post(PODS, pod())
    (container,) = made["spec"]["containers"]
    note = json.loads(made["metadata"]["annotations"][ADJUSTMENT])
    autopilot.delete(f"{PODS}/autopilot")
    assert container["resources"] == {
        "limits": {"ephemeral-storage": "1Gi"},
        "requests": {"cpu": "500m", "ephemeral-storage": "1Gi", "memory": "2Gi"},
    }
    assert note["modified"] is True

    privileged = {"securityContext": {"privileged": True}}
    for path, rejected in ((PODS, pod(**privileged)), (DEPLOYMENTS, deployment(**privileged))):
        with pytest.raises(KubeError) as error:
            autopilot.post(path, rejected)
        assert error.value.status == 400
        assert (
            f'admission webhook "{warden.VALIDATING}" denied the request: GKE Warden rejected the'
            " request because it violates one or more constraints."
        ) in str(error.value)
