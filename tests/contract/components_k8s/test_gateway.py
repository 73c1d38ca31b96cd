import json

import pytest
import yaml

from gke_inference import Exposure
from gke_inference.gateway.inference_gateway import (
    InferenceGatewayArgs,
    RoutedModelArgs,
    attached,
)
from gke_inference.intent.words import Task
from tests.contract.components_k8s import crds
from tests.contract.components_k8s.gateway_args import (
    CONFIG_MAP,
    CUSTOM,
    DEPLOYMENT,
    EMBED,
    LLAMA,
    answer_of,
    args,
    build,
)
from twin.cluster.agent.launching.static_server import read_site
from twin.providers.gcp.checks.validate import validate_inputs


def test_every_custom_object_is_what_its_crd_declares(recorder):
    build(recorder, {**args(LLAMA, EMBED), "certificate": "web", "hostname": "ai.example.com"})
    checked = 0
    for seen in recorder.registrations:
        if seen.type in CUSTOM.values():
            crds.check(seen.inputs)
            checked += 1
    assert checked == 19


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
    assert address == {
        "addressType": "EXTERNAL",
        "name": "acme-gateway",
        "networkTier": "STANDARD",
        "region": "us-east5",
    }


def test_an_internal_gateway_has_its_address_in_the_subnetwork(recorder):
    internal: InferenceGatewayArgs = {
        **args(),
        "exposure": Exposure.INTERNAL,
        "subnetwork": "nodes",
    }
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
    service = recorder.object("kubernetes:core/v1:Service", "llama-8b-picker")
    assert service["spec"]["ports"][0]["port"] == 9002


def test_a_pool_of_unlike_replicas_can_fail_closed(recorder):
    pool = build(recorder, {**args(), "picker_failure": "closed"}).one(CUSTOM["pool"]).inputs
    assert pool["spec"]["endpointPickerRef"]["failureMode"] == "FailClose"


def test_the_picker_reads_the_metrics_this_engine_has(recorder):
    build(recorder, args())
    pod = recorder.object(DEPLOYMENT, "llama-8b-picker")["spec"]["template"]["spec"]
    command = pod["containers"][0]["args"]
    assert not [flag for flag in command if flag.endswith("-metric")]  # the picker rejects them
    assert command[:4] == ["--pool-name", "llama-8b", "--pool-namespace", "serving"]
    assert "--ha-enable-leader-election" not in command
    text = recorder.object(CONFIG_MAP, "llama-8b-picker")["data"]["default-plugins.yaml"]
    plugins = {plugin["type"]: plugin for plugin in yaml.load(text, yaml.CSafeLoader)["plugins"]}
    assert plugins["core-metrics-extractor"]["parameters"] == {
        "defaultEngine": "engine",
        "engineConfigs": [
            {
                "name": "engine",
                "queuedRequestsSpec": "vllm:num_requests_waiting",
                "runningRequestsSpec": "vllm:num_requests_running",
                "kvUsageSpec": "vllm:kv_cache_usage_perc",
                "loraSpec": "vllm:lora_requests_info",
                "cacheInfoSpec": "vllm:cache_config_info",
            }
        ],
    }


def test_the_picker_scores_adapters_only_where_there_are_some(recorder):
    plain: RoutedModelArgs = {**LLAMA, "model_name": "m", "pool_name": "plain", "adapters": []}
    build(recorder, args(LLAMA, plain))
    weights = {}
    for pool in ("llama-8b", "plain"):
        text = recorder.object(CONFIG_MAP, f"{pool}-picker")["data"]["default-plugins.yaml"]
        profile = yaml.load(text, yaml.CSafeLoader)["schedulingProfiles"][0]["plugins"]
        weights[pool] = {entry["pluginRef"]: entry.get("weight") for entry in profile}
    assert weights == {
        "plain": {
            "full-replicas": None,
            "queue-scorer": 1,
            "kv-cache-utilization-scorer": 3,
            "prefix-cache-scorer": 3,
        },
        "llama-8b": {
            "queue-scorer": 2,
            "kv-cache-utilization-scorer": 2,
            "prefix-cache-scorer": 3,
            "lora-affinity-scorer": 4,
        },
    }


def test_a_full_replica_gets_no_more_requests_while_another_has_room(recorder):
    build(recorder, args({**LLAMA, "adapters": []}))
    text = recorder.object(CONFIG_MAP, "llama-8b-picker")["data"]["default-plugins.yaml"]
    (limit,) = (each for each in yaml.load(text, yaml.CSafeLoader)["plugins"] if "name" in each)
    assert limit == {
        "name": "full-replicas",
        "type": "utilization-detector",
        "parameters": {
            "queueDepthThreshold": 16,
            "kvCacheUtilThreshold": 1.0,
            "metricsStalenessThreshold": "2s",
        },
    }


def test_a_second_picker_elects_a_leader_and_nothing_waits_for_both(recorder):
    build(recorder, {**args(), "picker_replicas": 2})
    picker = recorder.object(DEPLOYMENT, "llama-8b-picker")
    container = picker["spec"]["template"]["spec"]["containers"][0]
    assert "--ha-enable-leader-election" in container["args"]
    assert container["readinessProbe"]["grpc"] == {"port": 9003, "service": "readiness"}
    assert picker["metadata"]["annotations"] == {"pulumi.com/skipAwait": "true"}
    service = recorder.object("kubernetes:core/v1:Service", "llama-8b-picker")
    assert service["metadata"]["annotations"] == {"pulumi.com/skipAwait": "true"}
    role = recorder.object("kubernetes:rbac.authorization.k8s.io/v1:Role", "llama-8b-picker")
    assert ["leases"] in [rule["resources"] for rule in role["rules"]]


def test_pickers_that_stand_by_are_on_another_node_and_no_budget_keeps_the_leader_there(recorder):
    build(recorder, {**args(), "picker_replicas": 2})
    spec = recorder.object(DEPLOYMENT, "llama-8b-picker")["spec"]["template"]["spec"]
    assert is_spread(spec)
    assert "llama-8b-picker" not in budgets(recorder)


@pytest.mark.parametrize("role", ["body-router", "catalogue"])
def test_what_every_request_needs_survives_the_drain_of_a_node(recorder, role):
    build(recorder, {**args(), "router_replicas": 3})
    (name,) = (name for name in budgets(recorder) if name.endswith(role))
    made = recorder.object(DEPLOYMENT, name)["spec"]
    assert made["replicas"] == 3
    assert budgets(recorder)[name] == {
        "maxUnavailable": 1,
        "selector": {"matchLabels": made["selector"]["matchLabels"]},
    }
    pod = made["template"]["spec"]
    assert is_spread(pod)
    (container,) = pod["containers"]
    waits = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert waits >= 20, "load balancers let go late"
    assert pod["terminationGracePeriodSeconds"] > waits


def budgets(recorder):
    found = recorder.all("kubernetes:policy/v1:PodDisruptionBudget")
    return {seen.inputs["metadata"]["name"]: seen.inputs["spec"] for seen in found}


def is_spread(spec):
    """Whether replicas stand on different nodes where there are several, and in zones in turn."""
    rules = {one["topologyKey"]: one for one in spec["topologySpreadConstraints"]}
    nodes, zones = rules["kubernetes.io/hostname"], rules["topology.kubernetes.io/zone"]
    assert nodes["nodeTaintsPolicy"] == "Honor", "nodes of accelerators are no place for it"
    return (nodes["whenUnsatisfiable"], nodes["maxSkew"], zones["maxSkew"]) == (
        "DoNotSchedule",
        1,
        1,
    )


def test_a_request_is_routed_by_model_and_by_adapter_under_v1_only(recorder):
    build(recorder, args())
    rules = recorder.object(CUSTOM["route"], "llama-8b")["spec"]["rules"]
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


def test_a_further_model_of_a_server_is_routed_and_listed_as_a_model(recorder):
    build(recorder, args({**EMBED, "task": Task.IMAGE, "further_models": ["flux-mini"]}))
    rules = recorder.object(CUSTOM["route"], "bge")["spec"]["rules"]
    matched = {m["headers"][0]["value"] for rule in rules for m in rule["matches"]}
    assert matched == {"bge-m3", "flux-mini"}
    listed = json.loads(recorder.object(CONFIG_MAP, "inference-catalogue")["data"]["models.json"])
    assert {each["id"]: each.get("parent") for each in listed["data"]} == {
        "bge-m3": None,
        "flux-mini": None,
    }


def test_the_catalogue_lists_every_model_and_adapter(recorder):
    build(recorder, args(LLAMA, EMBED))
    files = recorder.object(CONFIG_MAP, "inference-catalogue")["data"]
    listed = json.loads(files["models.json"])
    assert listed["object"] == "list"
    parents = {entry["id"]: entry.get("parent") for entry in listed["data"]}
    assert parents == {
        "bge-m3": None,
        "llama-3.1-8b": None,
        "sql": "llama-3.1-8b",
        "support": "llama-3.1-8b",
    }
    rules = recorder.object(CUSTOM["route"], "inference-catalogue")["spec"]["rules"]
    assert [rule["matches"] for rule in rules] == [
        [
            {"path": {"type": "PathPrefix", "value": "/v1/models"}},
            {"path": {"type": "Exact", "value": "/healthz"}},
        ]
    ]


def test_one_model_or_adapter_is_answered_with_its_entry_of_the_list(recorder):
    build(recorder, args(LLAMA, EMBED))
    files = recorder.object(CONFIG_MAP, "inference-catalogue")["data"]
    site, listed = read_site(files["default.conf"]), json.loads(files["models.json"])["data"]
    answers = [answer_of(site, f"/v1/models/{entry['id']}") for entry in listed]
    assert [(status, json.loads(text)) for status, text in answers] == [
        (200, entry) for entry in listed
    ]
    status, text = answer_of(site, "/v1/models/gpt-7")
    assert (status, json.loads(text)["error"]["code"]) == (404, "model_not_found")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
@pytest.mark.parametrize(
    "path", ["/v1/models", "/v1/models/llama-3.1-8b", "/v1/models/x", "/healthz"]
)
def test_the_catalogue_is_only_read(recorder, path: str, method: str):
    """GKE's gateways do not match methods (rule gateway.features), so the catalogue does."""
    build(recorder, args(LLAMA))
    site = read_site(recorder.object(CONFIG_MAP, "inference-catalogue")["data"]["default.conf"])
    status, text = answer_of(site, path, method)
    assert status == 405
    assert json.loads(text)["error"]["code"] == "method_not_allowed"


def test_the_refusal_of_the_responses_api_has_openais_format(recorder):
    build(recorder, args())
    site = read_site(recorder.object(CONFIG_MAP, "inference-catalogue")["data"]["default.conf"])
    for path in ("/v1/responses", "/v1/responses/resp_1/cancel"):
        status, text = answer_of(site, path, "POST")
        assert status == 404
        assert json.loads(text)["error"] == {
            "code": "unknown_url",
            "message": "This model does not serve the Responses API: use /v1/chat/completions.",
            "param": None,
            "type": "invalid_request_error",
        }
    assert site.content_type == "application/json"


def test_a_changed_catalogue_restarts_its_pods(recorder):
    build(recorder, args(LLAMA, EMBED))
    before = recorder.object(DEPLOYMENT, "inference-catalogue")["spec"]["template"]["metadata"]
    recorder.registrations.clear()
    build(recorder, args(LLAMA))
    after = recorder.object(DEPLOYMENT, "inference-catalogue")["spec"]["template"]["metadata"]
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
    router = recorder.object("kubernetes:core/v1:Service", "inference-body-router")
    assert router["spec"]["ports"][0]["port"] == call["backendRef"]["port"]
    probe = recorder.object(CUSTOM["health"], "inference-body-router")["spec"]["default"]
    assert (probe["checkIntervalSec"], probe["timeoutSec"]) == (2, 2)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (None, "no condition Attached"),
        (
            {"conditions": [{"type": "Attached", "status": "False", "reason": "TargetNotFound"}]},
            "TargetNotFound",
        ),
    ],
)
def test_a_gateway_is_not_published_before_its_policy_is_attached(status, reason):
    message = (
        "GCPGatewayPolicy models/inference must be Attached before the Gateway is published, got: "
        f"{reason}; run `up` again once it is"
    )
    with pytest.raises(ValueError, match=f"^{message}$"):
        attached("models/inference", status)
    done = {"conditions": [{"type": "Attached", "status": "True", "reason": "Attached"}]}
    assert attached("models/inference", done) == "models/inference"


def test_the_router_may_follow_an_answer_for_as_long_as_any_model_may_take(recorder):
    build(recorder, args())
    policy = recorder.object(CUSTOM["timeout"], "inference-body-router")["spec"]
    assert policy["default"] == {"timeoutSec": 3600}
    assert policy["targetRef"] == {"group": "", "kind": "Service", "name": "inference-body-router"}


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
    timeout = recorder.object(CUSTOM["timeout"], "llama-8b")["spec"]["default"]
    assert timeout["timeoutSec"] == 600


def test_a_busy_engine_has_five_seconds_to_answer_a_health_check(recorder):
    """Its API answers in the loop that also serves requests."""
    build(recorder, args(LLAMA, EMBED))
    check = recorder.object(CUSTOM["health"], "llama-8b")["spec"]["default"]
    assert (check["timeoutSec"], check["checkIntervalSec"]) == (5, 5)


def of_routes(recorder):
    """The backend policies of what routes lead to: all but that of the router."""
    return [
        seen.inputs["spec"]["default"]
        for seen in recorder.all(CUSTOM["timeout"])
        if seen.inputs["spec"]["targetRef"]["name"] != "inference-body-router"
    ]


GUARD = "gcp:compute/regionSecurityPolicy:RegionSecurityPolicy"
TLS = "gcp:compute/regionSslPolicy:RegionSslPolicy"


def test_every_backend_of_an_external_gateway_limits_sizes_and_the_requests_of_an_address(recorder):
    build(recorder, {**args(LLAMA, EMBED), "requests_per_minute": 90})
    guard = recorder.one(GUARD).inputs
    size, limit, rest = guard["rules"]
    assert (size["action"], size["priority"]) == ("deny(403)", 900)
    assert size["match"]["expr"]["expression"] == (
        "has(request.headers['content-length']) "
        "&& int(request.headers['content-length']) > 16777216 "
        "&& !(request.path.startsWith('/v1/files'))"
    )
    assert limit["rateLimitOptions"] == {
        "conformAction": "allow",
        "enforceOnKey": "IP",
        "exceedAction": "deny(429)",
        "rateLimitThreshold": {"count": 90, "intervalSec": 60},
    }
    assert (limit["action"], limit["match"]["config"]["srcIpRanges"]) == ("throttle", ["*"])
    assert (rest["action"], rest["priority"]) == ("allow", 2_147_483_647)
    policies = of_routes(recorder)
    assert len(policies) == 3, "two models and the catalogue"
    assert {policy["securityPolicy"] for policy in policies} == {guard["name"]}
    assert validate_inputs(GUARD, guard) == []


def test_an_internal_gateway_has_no_cloud_armor_policy(recorder):
    internal = {**args(), "exposure": Exposure.INTERNAL, "subnetwork": "nodes"}
    build(recorder, internal)
    assert recorder.all(GUARD) == []
    (policy, *_) = of_routes(recorder)
    assert "securityPolicy" not in policy


def test_a_gateway_with_a_certificate_speaks_nothing_older_than_tls_1_2(recorder):
    build(recorder, {**args(), "certificate": "web", "hostname": "ai.example.com"})
    policy = recorder.one(TLS).inputs
    assert (policy["minTlsVersion"], policy["profile"]) == ("TLS_1_2", "MODERN")
    spec = recorder.one(CUSTOM["tls"]).inputs["spec"]
    assert spec["default"] == {"sslPolicy": policy["name"]}
    assert spec["targetRef"]["kind"] == "Gateway"
    assert validate_inputs(TLS, policy) == []


def test_a_gateway_without_a_certificate_has_no_tls_policy(recorder):
    build(recorder, args())
    assert recorder.all(TLS) == recorder.all(CUSTOM["tls"]) == []


@pytest.mark.parametrize(
    ("percent", "logging"),
    [(10, {"enabled": True, "sampleRate": 100_000}), (0, {"enabled": False})],
)
def test_a_share_of_requests_is_logged(recorder, percent, logging):
    build(recorder, {**args(), "log_percent": percent})
    assert [policy["logging"] for policy in of_routes(recorder)] == [logging, logging]


def test_embeddings_go_to_a_service_because_the_picker_cannot_read_them(recorder):
    build(recorder, args(EMBED))
    assert recorder.all(CUSTOM["pool"]) == []
    assert recorder.all(CUSTOM["objective"]) == []
    rule = recorder.object(CUSTOM["route"], "bge")["spec"]["rules"][0]
    assert rule["backendRefs"] == [
        {"group": "", "kind": "Service", "name": "bge", "port": 8000, "weight": 1}
    ]
    service = recorder.object("kubernetes:core/v1:Service", "bge")
    assert service["metadata"]["annotations"] == {"pulumi.com/skipAwait": "true"}
    assert service["spec"]["selector"] == EMBED["selector"]


def test_batch_requests_are_the_first_to_be_refused(recorder):
    build(recorder, args({**LLAMA, "priority": 50}))
    priorities = {
        name: found["spec"]["priority"]
        for name, found in recorder.objects(CUSTOM["objective"]).items()
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
