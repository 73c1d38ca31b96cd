import json
from typing import Any

import pulumi
import pytest
import yaml

from gke_inference.inference_gateway import InferenceGateway, InferenceGatewayArgs, RoutedModelArgs
from tests.unit.components_k8s import crds

CUSTOM = {
    "pool": "kubernetes:inference.networking.k8s.io/v1:InferencePool",
    "objective": "kubernetes:inference.networking.x-k8s.io/v1alpha2:InferenceObjective",
    "gateway": "kubernetes:gateway.networking.k8s.io/v1:Gateway",
    "route": "kubernetes:gateway.networking.k8s.io/v1:HTTPRoute",
    "extension": "kubernetes:networking.gke.io/v1:GCPRoutingExtension",
    "timeout": "kubernetes:networking.gke.io/v1:GCPBackendPolicy",
    "health": "kubernetes:networking.gke.io/v1:HealthCheckPolicy",
    "scrape": "kubernetes:monitoring.googleapis.com/v1:PodMonitoring",
}
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
LLAMA: RoutedModelArgs = {
    "model_name": "llama-3.1-8b",
    "pool_name": "llama-8b",
    "selector": {"gke-inference/model": "llama-8b"},
    "target_port": 8000,
    "timeout_seconds": 600,
    "adapters": ["sql", "support"],
}
EMBED: RoutedModelArgs = {
    "model_name": "bge-m3",
    "pool_name": "bge",
    "selector": {"gke-inference/model": "bge"},
    "target_port": 8000,
    "timeout_seconds": 30,
    "task": "embed",
}


def args(*models: RoutedModelArgs) -> InferenceGatewayArgs:
    return {
        "address_name": "acme-gateway",
        "exposure": "external",
        "gateway_name": "inference",
        "models": list(models or [LLAMA]),
        "namespace": "serving",
        "region": "us-east5",
    }


def build(recorder, arguments):
    recorder.run(lambda: InferenceGateway("gateway", arguments).gateway_name)
    return recorder


def refused(recorder, arguments, message):
    with pytest.raises(pulumi.InputPropertyError, match=message):
        build(recorder, arguments)
    assert recorder.registrations == [] or all(
        seen.type.startswith(("gke-inference:", "pulumi:")) for seen in recorder.registrations
    )


def named(recorder, type_name, name) -> dict[str, Any]:
    found = [
        seen.inputs for seen in recorder.all(type_name) if seen.inputs["metadata"]["name"] == name
    ]
    assert len(found) == 1
    return found[0]


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"exposure": "public"}, "exposure.*external, internal, got 'public'"),
        ({"exposure": "internal"}, "subnetwork.*internal"),
        ({"hostname": "a.example.com"}, "hostname.*certificate"),
        ({"gateway_name": "G"}, "gatewayName.*got 'G'"),
        ({"gateway_name": "g" * 52}, "gatewayName.*at most 51"),
        ({"models": []}, "at least one model"),
        ({"picker_failure": "ajar"}, "pickerFailure.*closed, open"),
        ({"picker_replicas": 0}, "pickerReplicas.*1 to 5, got 0"),
        ({"router_replicas": 0}, "routerReplicas"),
        ({"port": 0}, "port.*1 to 65535, got 0"),
    ],
)
def test_a_gateway_that_cannot_be_is_refused(recorder, change, message):
    refused(recorder, {**args(), **change}, message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pool_name": "Llama"}, r"models\[0\]\.poolName"),
        ({"target_port": 70_000}, r"models\[0\]\.targetPort.*65535"),
        ({"timeout_seconds": 0}, r"models\[0\]\.timeoutSeconds.*1 to 3600, got 0"),
        ({"timeout_seconds": 3601}, r"models\[0\]\.timeoutSeconds"),
        ({"priority": -1}, r"models\[0\]\.priority"),
        ({"task": "rerank"}, r"models\[0\]\.task.*embed, generate"),
        ({"selector": {}}, r"models\[0\]\.selector"),
        ({"model_name": "two words"}, r"models\[0\]\.modelName.*'two words'"),
        ({"adapters": ["sql", "sql"]}, "own modelName, got 'sql' twice"),
    ],
)
def test_a_model_that_cannot_be_routed_is_refused(recorder, change, message):
    model: Any = {**LLAMA, **change}
    refused(recorder, args(model), message)


def test_two_models_do_not_share_a_name(recorder):
    refused(recorder, args(LLAMA, {**LLAMA, "pool_name": "other"}), "own modelName")


def test_two_models_do_not_share_a_pool(recorder):
    refused(recorder, args(LLAMA, {**EMBED, "pool_name": "llama-8b"}), "own poolName")


def with_canary(model: RoutedModelArgs, **change: Any) -> Any:
    canary = {"pool_name": "llama-8b-v2", "selector": {"m": "v2"}, "version": "v2", **change}
    return {**model, "canary": canary}


def test_what_a_canary_adds_is_what_its_crd_declares(recorder):
    build(recorder, args(with_canary(LLAMA, percent=10)))
    routes = [seen.inputs for seen in recorder.all(CUSTOM["route"])]
    assert {route["metadata"]["name"] for route in routes} >= {"llama-8b", "llama-8b-v2-pinned"}
    for seen in recorder.registrations:
        if seen.type in CUSTOM.values():
            crds.check(seen.inputs)
    assert len(recorder.all(CUSTOM["pool"])) == 2
    assert len(recorder.all(CUSTOM["timeout"])) == 3


def test_an_embedding_model_has_canaries_too(recorder):
    build(recorder, args(with_canary(EMBED, percent=25)))
    (rule,) = named(recorder, CUSTOM["route"], "bge")["spec"]["rules"]
    assert [(r["kind"], r["name"], r["port"], r["weight"]) for r in rule["backendRefs"]] == [
        ("Service", "bge", 8000, 75),
        ("Service", "llama-8b-v2", 8000, 25),
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"percent": 101}, "canary.percent.*must be 0 to 100"),
        ({"version": "stable"}, "canary.version.*and not 'stable'"),
        ({"pool_name": "llama-8b"}, "own poolName"),
        ({"selector": {}}, "canary.selector.*must have at least one label"),
    ],
)
def test_a_canary_that_cannot_be_is_refused(recorder, change, message):
    refused(recorder, args(with_canary(LLAMA, **change)), message)
