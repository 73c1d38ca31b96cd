from typing import Any

import pytest
import yaml

from gke_inference.operators.manager import WEBHOOK_PORT
from gke_inference.operators.queue_definitions import definitions
from gke_inference.operators.queue_operator import (
    NAMESPACE,
    WEBHOOK_SERVICE,
    QueueOperator,
    QueueOperatorArgs,
    observers,
    operator_objects,
    operator_server,
    priorities,
)
from gke_inference.operators.queue_webhooks import webhooks
from tests.contract.components_k8s import crds
from twin import toolchain
from twin.providers.kubernetes.manifests.objects import to_object

SERVER = "kubernetes:apps/v1:Deployment"
PRIORITY = "kubernetes:kueue.x-k8s.io/v1beta2:WorkloadPriorityClass"
TEMPLATE = ("spec", "podSets", "[]", "template")
"""Part of a workload whose schema is upstream's alone."""


def build(recorder: Any, args: QueueOperatorArgs) -> str:
    return recorder.run(lambda: QueueOperator("kueue", args).namespace)


FILE = "controller_manager_config.yaml"


def configuration() -> dict[str, Any]:
    data = operator_objects()["config"]["data"]
    return yaml.load(data[FILE], yaml.CSafeLoader)


def test_kueue_comes_with_its_kinds_and_two_priorities(recorder: Any):
    assert build(recorder, {}) == "kueue-system"
    assert recorder.one(SERVER).inputs["spec"]["replicas"] == 2
    values = {name: found["value"] for name, found in recorder.objects(PRIORITY).items()}
    assert values == {"high": 1000, "low": -1000}


def test_the_service_the_certificate_and_the_webhooks_agree():
    service = operator_objects()["service"]
    assert (service["metadata"]["name"], service["metadata"]["namespace"]) == (
        WEBHOOK_SERVICE,
        NAMESPACE,
    )
    entry = service["spec"]["ports"][0]
    assert (entry["port"], entry["targetPort"]) == (443, WEBHOOK_PORT)
    config = configuration()
    assert config["webhook"]["port"] == WEBHOOK_PORT
    own = config["internalCertManagement"]
    assert own["webhookServiceName"] == WEBHOOK_SERVICE
    assert own["webhookSecretName"] == operator_objects()["certificate"]["metadata"]["name"]
    pod = operator_server(2)["spec"]["template"]["spec"]
    mounts = {each["name"]: each["mountPath"] for each in pod["containers"][0]["volumeMounts"]}
    assert mounts["certificate"] == config["webhook"]["certDir"]
    for obj in webhooks(NAMESPACE, WEBHOOK_SERVICE).values():
        assert obj["metadata"]["name"].startswith("kueue-")
        for hook in obj["webhooks"]:
            target = hook["clientConfig"]["service"]
            assert (target["name"], target["namespace"]) == (WEBHOOK_SERVICE, NAMESPACE)


def test_jobs_outside_the_namespaces_of_teams_never_wait_for_kueue():
    hooks = [hook for obj in webhooks("n", "s").values() for hook in obj["webhooks"]]
    of_jobs = [hook for hook in hooks if hook["rules"][0]["resources"] == ["jobs"]]
    assert len(of_jobs) == 2
    selector = configuration()["managedJobsNamespaceSelector"]
    assert [hook["namespaceSelector"] for hook in of_jobs] == [selector, selector]
    assert not [hook for hook in hooks if hook["rules"][0]["resources"] == ["pods"]]


def test_sets_of_jobs_queue_where_they_are_installed(recorder: Any):
    recorder.run(lambda: QueueOperator("kueue", {"job_sets": True}).namespace)
    config = yaml.load(operator_objects(job_sets=True)["config"]["data"][FILE], yaml.CSafeLoader)
    assert config["integrations"]["frameworks"] == ["batch/job", "jobset.x-k8s.io/jobset"]
    assert configuration()["integrations"]["frameworks"] == ["batch/job"]
    made = webhooks("n", "s", job_sets=True)
    hooks = [hook for obj in made.values() for hook in obj["webhooks"]]
    of_sets = [hook for hook in hooks if hook["rules"][0]["resources"] == ["jobsets"]]
    selector = configuration()["managedJobsNamespaceSelector"]
    assert [hook["namespaceSelector"] for hook in of_sets] == [selector, selector]
    rules = recorder.object(
        "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole", "kueue-manager-role"
    )["rules"]
    of_kind = [rule for rule in rules if rule["apiGroups"] == ["jobset.x-k8s.io"]]
    assert [rule["resources"] for rule in of_kind] == [
        ["jobsets"],
        ["jobsets/finalizers"],
        ["jobsets/status"],
    ]


def test_collectors_read_metrics_with_a_token_that_is_good_for_nothing_else(recorder: Any):
    build(recorder, {"metrics_namespace": "gmp-system"})
    config = yaml.load(operator_objects(observed=True)["config"]["data"][FILE], yaml.CSafeLoader)
    assert config["metrics"] == {"bindAddress": ":8443", "enableClusterQueueResources": True}
    made = observers("gmp-system")
    (endpoint,) = made["monitoring"]["spec"]["endpoints"]
    assert endpoint["scheme"] == "https"
    secret = endpoint["authorization"]["credentials"]["secret"]
    token = made["token"]
    assert secret == {"key": "token", "name": token["metadata"]["name"]}
    assert token["type"] == "kubernetes.io/service-account-token"
    account = made["reader"]["metadata"]["name"]
    assert token["metadata"]["annotations"] == {"kubernetes.io/service-account.name": account}
    assert made["reading"]["subjects"] == [
        {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
    ]
    assert made["may-read"]["rules"] == [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    assert made["collecting"]["subjects"] == [
        {"kind": "ServiceAccount", "name": "collector", "namespace": "gmp-system"}
    ]
    assert made["may-collect"]["rules"][0]["resourceNames"] == [secret["name"]]
    (port,) = [
        each
        for each in recorder.one(SERVER).inputs["spec"]["template"]["spec"]["containers"][0][
            "ports"
        ]
        if each["name"] == endpoint["port"]
    ]
    assert port["containerPort"] == 8443


def test_without_collectors_kueue_serves_no_metrics(recorder: Any):
    build(recorder, {})
    assert configuration()["metrics"]["bindAddress"] == "0"
    assert not recorder.all("kubernetes:monitoring.googleapis.com/v1:PodMonitoring")


def test_a_priority_is_what_its_definition_declares():
    for obj in priorities().values():
        crds.check(obj)


def test_the_definitions_say_what_upstreams_say():
    try:
        folder = toolchain.share("crds/kueue")
    except toolchain.ToolError as error:
        pytest.skip(str(error))
    upstream = [
        yaml.load(file.read_text(), yaml.CSafeLoader) for file in sorted(folder.glob("*.yaml"))
    ]
    ours = {name: to_object(obj) for name, obj in definitions("n", "s").items()}
    assert set(ours) == {each["spec"]["names"]["plural"] for each in upstream}
    for each in upstream:
        found = ours[each["spec"]["names"]["plural"]]["spec"]
        (stored,) = [version for version in each["spec"]["versions"] if version["storage"]]
        (own,) = found["versions"]
        assert {key: found[key] for key in ("group", "names", "scope")} == {
            key: each["spec"][key] for key in ("group", "names", "scope")
        }
        assert own["name"] == stored["name"]
        assert own.get("subresources", {}) == stored.get("subresources", {})
        theirs = plain(stored["schema"]["openAPIV3Schema"], (), (TEMPLATE,))
        assert own["schema"]["openAPIV3Schema"] == theirs, found["names"]["kind"]


def plain(
    schema: dict[str, Any], path: tuple[str, ...], open_at: tuple[tuple[str, ...], ...]
) -> dict[str, Any]:
    """Returns a schema without descriptions, and without those at the paths of `open_at`."""
    if path in open_at:
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    found = {key: value for key, value in schema.items() if key != "description"}
    if "properties" in found:
        found["properties"] = {
            name: plain(body, (*path, name), open_at) for name, body in found["properties"].items()
        }
    for key, step in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(found.get(key), dict):
            found[key] = plain(found[key], (*path, step), open_at)
    return found
