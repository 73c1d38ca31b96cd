from typing import Any

import pytest
import yaml

from gke_inference.operators.group_definitions import definitions
from gke_inference.operators.group_operator import (
    NAMESPACE,
    WEBHOOK_SERVICE,
    LeaderWorkerSetOperator,
    LeaderWorkerSetOperatorArgs,
    operator_objects,
    operator_server,
)
from gke_inference.operators.group_webhooks import webhooks
from gke_inference.operators.manager import WEBHOOK_PORT
from tests.contract.components_k8s import crds
from twin.providers.kubernetes.manifests.objects import to_object

DEFINITION = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"
SERVER = "kubernetes:apps/v1:Deployment"
HOOKS = "kubernetes:admissionregistration.k8s.io/v1:MutatingWebhookConfiguration"


def build(recorder, args: LeaderWorkerSetOperatorArgs) -> str:
    return recorder.run(lambda: LeaderWorkerSetOperator("groups", args).namespace)


def pod() -> dict[str, Any]:
    return operator_server(2)["spec"]["template"]["spec"]


def test_the_operator_comes_with_the_two_kinds_it_watches(recorder):
    assert build(recorder, {}) == "lws-system"
    assert {seen.inputs["metadata"]["name"] for seen in recorder.all(DEFINITION)} == {
        "disaggregatedsets.disaggregatedset.x-k8s.io",
        "leaderworkersets.leaderworkerset.x-k8s.io",
    }
    assert recorder.one(SERVER).inputs["spec"]["replicas"] == 2
    assert recorder.one(HOOKS).name == "groups-mutating"


def test_the_service_the_certificate_and_the_webhooks_agree():
    service = operator_objects()["service"]
    assert service["metadata"]["name"] == WEBHOOK_SERVICE
    entry = service["spec"]["ports"][0]
    assert (entry["port"], entry["targetPort"]) == (443, WEBHOOK_PORT)
    labels = operator_server(2)["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    config = yaml.load(
        operator_objects()["config"]["data"]["controller_manager_config.yaml"], yaml.CSafeLoader
    )
    assert config["webhook"]["port"] == WEBHOOK_PORT
    own = config["internalCertManagement"]
    assert own["webhookServiceName"] == WEBHOOK_SERVICE
    assert own["webhookSecretName"] == operator_objects()["certificate"]["metadata"]["name"]
    mounts = {each["name"]: each["mountPath"] for each in pod()["containers"][0]["volumeMounts"]}
    assert mounts["certificate"] == config["webhook"]["certDir"]
    for obj in webhooks(NAMESPACE, WEBHOOK_SERVICE).values():
        for hook in obj["webhooks"]:
            target = hook["clientConfig"]["service"]
            assert (target["name"], target["namespace"]) == (WEBHOOK_SERVICE, NAMESPACE)


def test_no_pod_outside_a_group_waits_for_the_operator():
    hooks = [hook for obj in webhooks("n", "s").values() for hook in obj["webhooks"]]
    of_pods = [hook for hook in hooks if hook["rules"][0]["resources"] == ["pods"]]
    assert len(of_pods) == 2
    for hook in of_pods:
        assert hook["objectSelector"]["matchExpressions"] == [
            {"key": "leaderworkerset.sigs.k8s.io/name", "operator": "Exists"}
        ]


def test_the_operator_is_ready_once_its_webhooks_answer():
    container = pod()["containers"][0]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports[container["readinessProbe"]["tcpSocket"]["port"]] == WEBHOOK_PORT


@pytest.mark.parametrize("role", ["groups", "phases"])
def test_a_definition_has_the_fields_of_upstreams(role):
    definition = to_object(definitions()[role])
    kind, group = definition["spec"]["names"]["kind"], definition["spec"]["group"]
    if not crds._has_upstream():
        pytest.skip("the upstream CRDs are not built yet: run `make tools`")
    upstream = crds._schemas(kind)[f"{group}/v1"]["properties"]
    ours = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    for part in ("spec", "status"):
        agree(ours[part], upstream[part], part)


def agree(ours: dict[str, Any], upstream: dict[str, Any], path: str) -> None:
    """Asserts that a schema says what upstream's says, down to where it takes anything."""
    if ours.get("x-kubernetes-preserve-unknown-fields"):
        assert upstream["type"] == "object", path
        return
    for word in ("type", "enum", "required"):
        if word in upstream:
            assert ours.get(word) == upstream[word], f"{path}: {word}"
    assert set(ours.get("properties", {})) == set(upstream.get("properties", {})), path
    for name, body in ours.get("properties", {}).items():
        agree(body, upstream["properties"][name], f"{path}.{name}")
    if "items" in ours:
        agree(ours["items"], upstream["items"], f"{path}[]")
