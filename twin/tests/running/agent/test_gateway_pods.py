"""Picker, router and catalogue pods: real programs with the pod's own identity."""

import json
import urllib.request
from typing import Any

import pytest
import yaml

from twin.cluster.base import podports
from twin.host import loopback_only
from twin.host.listening import listeners
from twin.host.ports import listens
from twin.tests.eventually import eventually
from twin.tests.running.agent.conftest import Agent
from twin.tests.running.agent.objects import condition, pod
from twin.toolchain import share
from twin.wire.kube import Kube, KubeError

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(120)]
JsonObject = dict[str, Any]
REGISTRY = "registry.k8s.io/gateway-api-inference-extension"
PICKER_CONFIG = """
apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: 1}
"""
RULES = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
    {
        "apiGroups": ["inference.networking.k8s.io"],
        "resources": ["inferencepools"],
        "verbs": ["get", "list", "watch"],
    },
    {
        "apiGroups": ["inference.networking.x-k8s.io"],
        "resources": ["inferenceobjectives", "inferencemodelrewrites"],
        "verbs": ["get", "list", "watch"],
    },
]


@pytest.fixture(scope="module")
def inference_crds(agent: Agent) -> None:
    kube = agent.context.kube
    for file in sorted(share("crds/inference").glob("*.yaml")):
        for crd in yaml.safe_load_all(file.read_text()):
            if crd and crd["kind"] == "CustomResourceDefinition":
                kube.apply(crd, manager="test")
    eventually(lambda: kube.resource("inference.networking.k8s.io/v1", "InferencePool"))


def picker(namespace: str) -> JsonObject:
    container = {
        "name": "epp",
        "image": f"{REGISTRY}/epp:v1.2.0",
        "args": [
            "--pool-name",
            "engines",
            "--pool-namespace=$(NAMESPACE)",
            "--config-file",
            "/config/plugins.yaml",
            "--tracing=false",
            "--metrics-endpoint-auth=false",
        ],
        "env": [
            {
                "name": "NAMESPACE",
                "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}},
            }
        ],
        "ports": [{"containerPort": 9002, "name": "grpc"}],
        "readinessProbe": {"grpc": {"port": 9003, "service": "inference-extension"}},
        "volumeMounts": [{"name": "config", "mountPath": "/config"}],
    }
    volumes = [{"name": "config", "configMap": {"name": "picker"}}]
    return pod("picker", container, kind="cpu", volumes=volumes, serviceAccountName="picker")


def prepare(kube: Kube, namespace: str) -> None:
    base = f"/api/v1/namespaces/{namespace}"
    kube.post(f"{base}/serviceaccounts", {"metadata": {"name": "picker"}})
    config = {"metadata": {"name": "picker"}, "data": {"plugins.yaml": PICKER_CONFIG}}
    kube.post(f"{base}/configmaps", config)
    kube.post(
        f"/apis/inference.networking.k8s.io/v1/namespaces/{namespace}/inferencepools",
        {
            "apiVersion": "inference.networking.k8s.io/v1",
            "kind": "InferencePool",
            "metadata": {"name": "engines"},
            "spec": {
                "selector": {"matchLabels": {"app": "engine"}},
                "targetPorts": [{"number": 8000}],
                "endpointPickerRef": {"name": "picker", "port": {"number": 9002}},
            },
        },
    )


def grant(kube: Kube, namespace: str) -> None:
    base = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    kube.post(f"{base}/roles", {"metadata": {"name": "picker"}, "rules": RULES})
    subject = {"kind": "ServiceAccount", "name": "picker", "namespace": namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "picker"}
    binding = {"metadata": {"name": "picker"}, "subjects": [subject], "roleRef": reference}
    kube.post(f"{base}/rolebindings", binding)


@pytest.mark.usefixtures("inference_crds")
def test_the_picker_is_the_real_one_and_ready_once_its_role_allows_it(
    agent: Agent, kube: Kube, namespace: str
):
    prepare(kube, namespace)
    grant(kube, namespace)
    kube.post(f"/api/v1/namespaces/{namespace}/pods", picker(namespace))
    path = f"/api/v1/namespaces/{namespace}/pods/picker"
    eventually(lambda: condition(kube.get(path), "Ready") == "True", 60)
    found = kube.get(path)
    address, port = podports.resolve(agent.context.dir, found, 9002)
    assert (address, port) != (found["status"]["podIP"], 9002)
    eventually(lambda: listens(port, address))  # a moment after its health service says so
    if not loopback_only.problem():  # its own choice is all interfaces
        pid = int(found["status"]["containerStatuses"][0]["containerID"].removeprefix("twin://"))
        own = [each for each in listeners() if each.pid == pid]
        assert len(own) == 3
        assert all(each.is_on_loopback for each in own)
    kube.delete(path, {"gracePeriodSeconds": 2})
    eventually(lambda: not podports.read(agent.context.dir, namespace, "picker"))


@pytest.mark.usefixtures("inference_crds")
def test_a_picker_without_its_role_does_not_become_ready(agent: Agent, kube: Kube, namespace: str):
    prepare(kube, namespace)
    kube.post(f"/api/v1/namespaces/{namespace}/pods", picker(namespace))
    log = agent.context.dir / "logs" / "pods" / f"{namespace}_picker_epp.log"
    eventually(lambda: log.exists() and "forbidden" in log.read_text(), 60)
    found = kube.get(f"/api/v1/namespaces/{namespace}/pods/picker")
    assert condition(found, "Ready") == "False"


def test_a_pod_whose_config_map_is_missing_waits_for_it(kube: Kube, namespace: str):
    server = "server { listen 8080; location = /v1/models { alias /srv/catalogue/models.json; } }"
    container = {
        "name": "catalogue",
        "image": "docker.io/nginxinc/nginx-unprivileged:1.29",
        "readinessProbe": {"httpGet": {"path": "/v1/models", "port": 8080}},
        "volumeMounts": [
            {"name": "server", "mountPath": "/etc/nginx/conf.d"},
            {"name": "models", "mountPath": "/srv/catalogue"},
        ],
    }
    items = {"server": "default.conf", "models": "models.json"}
    volumes = [
        {"name": name, "configMap": {"name": "site", "items": [{"key": key, "path": key}]}}
        for name, key in items.items()
    ]
    base = f"/api/v1/namespaces/{namespace}"
    kube.post(f"{base}/pods", pod("site", container, kind="cpu", volumes=volumes))

    def waiting() -> JsonObject:
        state = kube.get(f"{base}/pods/site")["status"]["containerStatuses"][0]["state"]
        return state.get("waiting", {})

    def failed_mounts() -> list[str]:
        events = kube.list(f"{base}/events", field_selector="involvedObject.name=site")
        return [event["message"] for event in events if event["reason"] == "FailedMount"]

    eventually(failed_mounts)
    assert waiting()["reason"] == "ContainerCreating"
    text = 'MountVolume.SetUp failed for volume "server" : configmap "site" not found'
    assert failed_mounts() == [text]
    data = {"default.conf": server, "models.json": json.dumps({"object": "list", "data": []})}
    kube.post(f"{base}/configmaps", {"metadata": {"name": "site"}, "data": data})
    eventually(lambda: condition(kube.get(f"{base}/pods/site"), "Ready") == "True")
    address = kube.get(f"{base}/pods/site")["status"]["podIP"]
    with urllib.request.urlopen(f"http://{address}:8080/v1/models", timeout=5) as answer:
        assert json.loads(answer.read())["object"] == "list"


def test_a_pods_token_ends_with_the_pod(agent: Agent, kube: Kube, namespace: str):
    kube.post(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "picker"}})
    config = {"metadata": {"name": "picker"}, "data": {"plugins.yaml": PICKER_CONFIG}}
    kube.post(f"/api/v1/namespaces/{namespace}/configmaps", config)
    kube.post(f"/api/v1/namespaces/{namespace}/pods", picker(namespace))
    path = f"/api/v1/namespaces/{namespace}/pods/picker"

    def written() -> JsonObject | None:
        uid = kube.get(path)["metadata"]["uid"]
        file = agent.context.dir / "pods" / namespace / uid / "kubeconfig"
        return json.loads(file.read_text()) if file.exists() and file.read_text() else None

    own = Kube(eventually(written))
    with pytest.raises(KubeError) as refused:
        own.list(f"/api/v1/namespaces/{namespace}/secrets")
    assert refused.value.status == 403
    kube.delete(path, {"gracePeriodSeconds": 1})

    def rejected() -> bool:
        try:
            own.get("/api/v1/namespaces")
        except KubeError as error:
            return error.status == 401
        return False

    eventually(rejected)
