import json

import pytest
import yaml

from gke_inference.gateway.inference_gateway import InferenceGatewayArgs, RoutedModelArgs
from tests.contract.components_k8s import crds
from tests.contract.components_k8s.gateway_args import (
    CONFIG_MAP,
    CUSTOM,
    DEPLOYMENT,
    EMBED,
    LLAMA,
    args,
    build,
    named,
)


def test_every_custom_object_is_what_its_crd_declares(recorder):
    build(recorder, {**args(LLAMA, EMBED), "certificate": "web", "hostname": "ai.example.com"})
    checked = 0
    for seen in recorder.registrations:
        if seen.type in CUSTOM.values():
            crds.check(seen.inputs)
            checked += 1
    assert checked == 16


def test_the_gateway_waits_until_it_is_programmed_on_its_own_address(recorder):
    gateway = build(recorder, args()).one(CUSTOM["gateway"]).inputs
    assert gateway["spec"] == {
        "addresses": [{"type": "NamedAddress", "value": "acme-gateway"}],
        "gatewayClassName": "gke-l7-regional-external-managed",
        "listeners": [
            {
                "allowedRoutes": {"namespaces": {"from": "Same"}},
                "name": "http",
                "port": 80,
                "protocol": "HTTP",
            }
        ],
    }
    assert gateway["metadata"]["annotations"] == {"pulumi.com/waitFor": "condition=Programmed"}
    address = recorder.one("gcp:compute/address:Address").inputs
    assert address == {"addressType": "EXTERNAL", "name": "acme-gateway", "region": "us-east5"}


def test_an_internal_gateway_has_its_address_in_the_subnetwork(recorder):
    internal: InferenceGatewayArgs = {**args(), "exposure": "internal", "subnetwork": "nodes"}
    build(recorder, internal)
    address = recorder.one("gcp:compute/address:Address").inputs
    assert address["addressType"] == "INTERNAL"
    assert address["subnetwork"] == "nodes"
    assert recorder.one(CUSTOM["gateway"]).inputs["spec"]["gatewayClassName"] == "gke-l7-rilb"


def test_a_certificate_makes_the_gateway_speak_https_only(recorder):
    secure: InferenceGatewayArgs = {
        **args(),
        "certificate": "models-example-com",
        "hostname": "models.example.com",
    }
    listeners = build(recorder, secure).one(CUSTOM["gateway"]).inputs["spec"]["listeners"]
    assert listeners == [
        {
            "allowedRoutes": {"namespaces": {"from": "Same"}},
            "hostname": "models.example.com",
            "name": "https",
            "port": 443,
            "protocol": "HTTPS",
            "tls": {
                "mode": "Terminate",
                "options": {"networking.gke.io/cert-manager-certs": "models-example-com"},
            },
        }
    ]
    assert all(
        route.inputs["spec"]["hostnames"] == ["models.example.com"]
        for route in recorder.all(CUSTOM["route"])
    )


def test_a_pool_has_one_picker_and_survives_its_loss(recorder):
    pool = build(recorder, args()).one(CUSTOM["pool"]).inputs
    assert pool["spec"] == {
        "endpointPickerRef": {
            "failureMode": "FailOpen",
            "group": "",
            "kind": "Service",
            "name": "llama-8b-picker",
            "port": {"number": 9002},
        },
        "selector": {"matchLabels": {"gke-inference/model": "llama-8b"}},
        "targetPorts": [{"number": 8000}],
    }
    service = named(recorder, "kubernetes:core/v1:Service", "llama-8b-picker")
    assert service["spec"]["ports"][0]["port"] == 9002


def test_a_pool_of_unlike_replicas_can_fail_closed(recorder):
    pool = build(recorder, {**args(), "picker_failure": "closed"}).one(CUSTOM["pool"]).inputs
    assert pool["spec"]["endpointPickerRef"]["failureMode"] == "FailClose"


def test_the_picker_reads_the_metrics_this_engine_has(recorder):
    build(recorder, args())
    pod = named(recorder, DEPLOYMENT, "llama-8b-picker")["spec"]["template"]["spec"]
    command = pod["containers"][0]["args"]
    at = command.index("--kv-cache-usage-percentage-metric")
    assert command[at + 1] == "vllm:kv_cache_usage_perc"
    assert command[:4] == ["--pool-name", "llama-8b", "--pool-namespace", "serving"]
    assert "--ha-enable-leader-election" not in command


def test_the_picker_scores_adapters_only_where_there_are_some(recorder):
    plain: RoutedModelArgs = {**LLAMA, "model_name": "m", "pool_name": "plain", "adapters": []}
    build(recorder, args(LLAMA, plain))
    weights = {}
    for pool in ("llama-8b", "plain"):
        text = named(recorder, CONFIG_MAP, f"{pool}-picker")["data"]["default-plugins.yaml"]
        profile = yaml.safe_load(text)["schedulingProfiles"][0]["plugins"]
        weights[pool] = {entry["pluginRef"]: entry["weight"] for entry in profile}
    assert weights == {
        "plain": {"queue-scorer": 2, "kv-cache-utilization-scorer": 5, "prefix-cache-scorer": 3},
        "llama-8b": {
            "queue-scorer": 2,
            "kv-cache-utilization-scorer": 2,
            "prefix-cache-scorer": 3,
            "lora-affinity-scorer": 4,
        },
    }


def test_a_second_picker_elects_a_leader_and_nothing_waits_for_both(recorder):
    build(recorder, {**args(), "picker_replicas": 2})
    picker = named(recorder, DEPLOYMENT, "llama-8b-picker")
    container = picker["spec"]["template"]["spec"]["containers"][0]
    assert "--ha-enable-leader-election" in container["args"]
    assert container["readinessProbe"]["grpc"] == {"port": 9003, "service": "readiness"}
    assert picker["metadata"]["annotations"] == {"pulumi.com/skipAwait": "true"}
    role = named(recorder, "kubernetes:rbac.authorization.k8s.io/v1:Role", "llama-8b-picker")
    assert ["leases"] in [rule["resources"] for rule in role["rules"]]


def test_a_request_is_routed_by_model_and_by_adapter_under_v1_only(recorder):
    build(recorder, args())
    rules = named(recorder, CUSTOM["route"], "llama-8b")["spec"]["rules"]
    assert [rule["backendRefs"] for rule in rules] == [
        [
            {
                "group": "inference.networking.k8s.io",
                "kind": "InferencePool",
                "name": "llama-8b",
                "weight": 1,
            }
        ]
    ]
    values = [match["headers"][0]["value"] for match in rules[0]["matches"]]
    assert values == ["llama-3.1-8b", "sql", "support"]
    assert {match["path"]["value"] for match in rules[0]["matches"]} == {"/v1"}


@pytest.mark.parametrize("adapters", [0, 59, 60, 119, 120, 250])
def test_no_number_of_adapters_exceeds_what_a_route_may_have(recorder, adapters):
    names = [f"adapter-{number:03}" for number in range(adapters)]
    build(recorder, args({**LLAMA, "adapters": names}))
    routes = [
        route.inputs
        for route in recorder.all(CUSTOM["route"])
        if route.inputs["metadata"]["name"].startswith("llama-8b")
    ]
    matched: list[str] = []
    for route in routes:
        crds.check(route)
        rules = route["spec"]["rules"]
        assert len(rules) <= 16
        assert max(len(rule["matches"]) for rule in rules) <= 64
        assert sum(len(rule["matches"]) for rule in rules) < 128
        matched += [m["headers"][0]["value"] for rule in rules for m in rule["matches"]]
    assert sorted(matched) == sorted(["llama-3.1-8b", *names])


def test_the_catalogue_lists_every_model_and_adapter(recorder):
    build(recorder, args(LLAMA, EMBED))
    files = named(recorder, CONFIG_MAP, "inference-catalogue")["data"]
    listed = json.loads(files["models.json"])
    assert listed["object"] == "list"
    parents = {entry["id"]: entry.get("parent") for entry in listed["data"]}
    assert parents == {
        "bge-m3": None,
        "llama-3.1-8b": None,
        "sql": "llama-3.1-8b",
        "support": "llama-3.1-8b",
    }
    route = named(recorder, CUSTOM["route"], "inference-catalogue")["spec"]["rules"][0]
    assert route["matches"] == [{"method": "GET", "path": {"type": "Exact", "value": "/v1/models"}}]


def test_a_changed_catalogue_restarts_its_pods(recorder):
    build(recorder, args(LLAMA, EMBED))
    before = named(recorder, DEPLOYMENT, "inference-catalogue")["spec"]["template"]["metadata"]
    recorder.registrations.clear()
    build(recorder, args(LLAMA))
    after = named(recorder, DEPLOYMENT, "inference-catalogue")["spec"]["template"]["metadata"]
    assert before["annotations"] != after["annotations"]


def test_the_load_balancer_asks_the_router_before_it_routes(recorder):
    extension = build(recorder, args()).one(CUSTOM["extension"]).inputs["spec"]
    assert extension["targetRefs"] == [
        {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "inference"}
    ]
    (call,) = extension["extensionChains"][0]["extensions"]
    assert call["supportedEvents"] == ["RequestHeaders", "RequestBody", "RequestTrailers"]
    assert call["requestBodySendMode"] == "FullDuplexStreamed"
    assert call["backendRef"]["name"] == "inference-body-router"
    router = named(recorder, "kubernetes:core/v1:Service", "inference-body-router")
    assert router["spec"]["ports"][0]["port"] == call["backendRef"]["port"]


def test_every_backend_has_a_health_check_and_a_timeout(recorder):
    build(recorder, args(LLAMA, EMBED))
    backends = {
        (ref["kind"], ref["name"])
        for route in recorder.all(CUSTOM["route"])
        for rule in route.inputs["spec"]["rules"]
        for ref in rule["backendRefs"]
    }
    assert len(backends) == 3
    for policy in ("health", "timeout"):
        targets = {
            (seen.inputs["spec"]["targetRef"]["kind"], seen.inputs["spec"]["targetRef"]["name"])
            for seen in recorder.all(CUSTOM[policy])
        }
        assert backends <= targets
    timeout = named(recorder, CUSTOM["timeout"], "llama-8b")["spec"]["default"]
    assert timeout["timeoutSec"] == 600


def test_embeddings_go_to_a_service_because_the_picker_cannot_read_them(recorder):
    build(recorder, args(EMBED))
    assert recorder.all(CUSTOM["pool"]) == []
    assert recorder.all(CUSTOM["objective"]) == []
    rule = named(recorder, CUSTOM["route"], "bge")["spec"]["rules"][0]
    assert rule["backendRefs"] == [
        {"group": "", "kind": "Service", "name": "bge", "port": 8000, "weight": 1}
    ]
    service = named(recorder, "kubernetes:core/v1:Service", "bge")
    assert service["spec"]["selector"] == EMBED["selector"]


def test_batch_requests_are_the_first_to_be_refused(recorder):
    build(recorder, args({**LLAMA, "priority": 50}))
    priorities = {
        seen.inputs["metadata"]["name"]: seen.inputs["spec"]["priority"]
        for seen in recorder.all(CUSTOM["objective"])
    }
    assert priorities == {"llama-8b-batch": -1, "llama-8b-interactive": 50}


def test_no_container_of_the_gateway_runs_as_root(recorder):
    build(recorder, args(LLAMA, EMBED))
    for seen in recorder.all(DEPLOYMENT):
        pod = seen.inputs["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        for container in pod["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
