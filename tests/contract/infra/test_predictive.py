"""A predictive model in Triton: its pods, its autoscaler, its routes, and what it excludes."""

import json
from typing import Any

import pytest

from infra.reading.load import parse, platform_of
from tests.contract.infra.cloud import Deployed
from tests.contract.recorder import Records
from tests.shipped_stacks import EXAMPLES

FILE = EXAMPLES / "predictive" / "Pulumi.predictive.yaml"
PENDING = "prometheus.googleapis.com|nv_inference_pending_request_count|gauge"
CALLS = [
    f"/inference.GRPCInferenceService/{call}"
    for call in ("ModelConfig", "ModelInfer", "ModelMetadata", "ModelReady")
]
SERVER_CALLS = [f"/inference.GRPCInferenceService/{call}" for call in ("ServerLive", "ServerReady")]
PATHS = [f"/v2/models/fraud{path}" for path in ("", "/config", "/infer", "/ready")]


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return platform_of(FILE)


@pytest.fixture
def made(deployed: Deployed, document: dict[str, Any]) -> Records:
    return deployed(parse(json.dumps(document)))


def named(made: Records, kind: str, name: str) -> dict[str, Any]:
    (found,) = (
        each.inputs
        for each in made.registrations
        if each.inputs.get("kind", "") == kind and each.inputs["metadata"]["name"] == name
    )
    return found


def test_a_replica_reads_its_repository_from_the_mount_and_has_its_metrics_on_a_port_of_their_own(
    made: Records,
):
    pod = named(made, "Deployment", "fraud-cpu")["spec"]["template"]["spec"]
    (engine,) = pod["containers"]
    assert engine["image"] == "nvcr.io/nvidia/tritonserver:26.06-py3"
    assert engine["command"][-2:] == ["--", "tritonserver"]
    folder = "/mnt/buckets/acme-predictive-models-us-central1/fraud"
    assert engine["args"] == [
        f"--model-repository={folder}/models",
        "--model-control-mode=none",
        "--http-port=8000",
        "--grpc-port=8001",
        "--metrics-port=8002",
        "--exit-timeout-secs=25",
    ]
    (launcher,) = (each["configMap"]["name"] for each in pod["volumes"] if "configMap" in each)
    spec = json.loads(named(made, "ConfigMap", launcher)["data"]["spec.json"])
    assert spec["health_path"] == "/v2/health/ready"
    assert spec["metrics_port"] == 8002
    assert spec["busy_metrics"] == ["nv_inference_pending_request_count"]
    (endpoint,) = named(made, "PodMonitoring", "fraud")["spec"]["endpoints"]
    assert endpoint["port"] == 8002
    assert [(each["name"], each["containerPort"]) for each in engine["ports"]][2:] == [
        ("grpc", 8001),
        ("metrics", 8002),
    ]
    policy = named(made, "NetworkPolicy", "fraud-metrics")["spec"]
    assert policy["ingress"][0]["ports"] == [{"port": 8002, "protocol": "TCP"}]


def test_the_autoscaler_follows_the_requests_that_wait_for_an_instance(made: Records):
    spec = named(made, "HorizontalPodAutoscaler", "fraud-cpu")["spec"]
    (metric,) = spec["metrics"]
    assert metric["pods"] == {
        "metric": {"name": PENDING},
        "target": {"averageValue": "4", "type": "AverageValue"},
    }
    assert (spec["minReplicas"], spec["maxReplicas"]) == (1, 3)


def test_only_the_paths_of_the_model_are_routed_by_weight_and_by_the_header_of_a_version(
    made: Records,
):
    rule, calls = named(made, "HTTPRoute", "fraud")["spec"]["rules"]
    model = {"name": "X-Gateway-Model-Name", "type": "Exact", "value": "fraud"}
    assert rule["matches"] == [
        {"headers": [model], "path": {"type": "Exact", "value": path}} for path in PATHS
    ]
    shares = {each["name"]: (each["kind"], each["weight"]) for each in rule["backendRefs"]}
    assert shares == {"fraud": ("Service", 90), "fraud-v2": ("Service", 10)}
    shares = {each["name"]: (each["port"], each["weight"]) for each in calls["backendRefs"]}
    assert shares == {"fraud-grpc": (8001, 90), "fraud-v2-grpc": (8001, 10)}
    assert calls["matches"] == [
        *({"headers": [model], "path": {"type": "Exact", "value": path}} for path in CALLS),
        *({"path": {"type": "Exact", "value": path}} for path in SERVER_CALLS),
    ]
    names = ("fraud-v2-pinned", "fraud-v2-pinned-2")
    rules = [rule for name in names for rule in named(made, "HTTPRoute", name)["spec"]["rules"]]
    pinned = {rule["backendRefs"][0]["name"]: rule["matches"] for rule in rules}
    assert list(pinned) == ["fraud-v2", "fraud", "fraud-v2-grpc", "fraud-grpc"]
    assert [match["path"]["value"] for match in pinned["fraud-grpc"]] == CALLS
    for name, version in (("fraud", "stable"), ("fraud-v2", "v2")):
        header = {"name": "x-model-version", "type": "Exact", "value": version}
        assert [match["path"]["value"] for match in pinned[name]] == PATHS
        assert all(match["headers"] == [model, header] for match in pinned[name])
    check = named(made, "HealthCheckPolicy", "fraud")["spec"]["default"]["config"]
    assert check["httpHealthCheck"] == {
        "port": 8000,
        "portSpecification": "USE_FIXED_PORT",
        "requestPath": "/v2/health/ready",
    }


@pytest.mark.parametrize("pool", ["fraud", "fraud-v2"])
def test_grpc_has_a_service_with_http_2_its_own_health_check_and_a_way_from_the_load_balancer(
    made: Records, pool: str
):
    service = named(made, "Service", f"{pool}-grpc")["spec"]
    assert service["ports"] == [
        {"appProtocol": "kubernetes.io/h2c", "name": "grpc", "port": 8001, "targetPort": 8001}
    ]
    assert service["selector"] == named(made, "Service", pool)["spec"]["selector"]
    check = named(made, "HealthCheckPolicy", f"{pool}-grpc")["spec"]
    assert check["default"]["config"] == {
        "grpcHealthCheck": {"port": 8001, "portSpecification": "USE_FIXED_PORT"},
        "type": "GRPC",
    }
    timeout = named(made, "GCPBackendPolicy", f"{pool}-grpc")["spec"]["default"]["timeoutSec"]
    assert timeout == 10
    policy = named(made, "NetworkPolicy", f"{pool}-grpc")["spec"]
    ((rule, selector),) = [
        (each, policy["podSelector"]["matchLabels"]) for each in policy["ingress"]
    ]
    assert rule["ports"] == [{"port": 8001, "protocol": "TCP"}]
    pod = named(made, "Deployment", f"{pool}-cpu")["spec"]["template"]["metadata"]["labels"]
    assert selector.items() <= pod.items()


def changed(document: dict[str, Any], change: dict[str, Any]) -> str:
    def merged(before: Any, after: Any) -> Any:
        if not isinstance(before, dict) or not isinstance(after, dict):
            return after
        return {**before, **{name: merged(before.get(name), after[name]) for name in after}}

    return json.dumps(merged(document, change))


OF_MODEL = "models.fraud"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {"models": {"fraud": {"engine": "triton", "capacity": "gpus"}}},
            f"{OF_MODEL}.engine must be tritonserver when task is predict, got 'triton'",
        ),
        (
            {"models": {"qwen3-4b": {"engine": "tritonserver"}}},
            "models.qwen3-4b.task must be one of predict with Triton Inference Server on nvidia-l4",
        ),
        (
            {"models": {"fraud": {"context": 4096}}},
            f"{OF_MODEL}.context must not be set when task is predict: there are no tokens, got"
            " 4096",
        ),
        (
            {"models": {"fraud": {"settings": {"tensor_parallel": 1}}}},
            f"{OF_MODEL}.settings.tensor_parallel must not be set when task is predict",
        ),
        (
            {"models": {"fraud": {"settings": {"engine_args": {"allow-grpc": True}}}}},
            f"{OF_MODEL}.settings.engine_args.allow-grpc must not be set: the platform owns it",
        ),
        (
            {"models": {"fraud": {"capacity": "gpus", "size": {"parameters_billion": 12}}}},
            f"{OF_MODEL}.capacity must hold the model on every rung",
        ),
        (
            {"models": {"fraud": {"autoscaling": {"running_requests": 4}}}},
            f"{OF_MODEL}.autoscaling.running_requests must not be set when task is predict: the"
            " autoscaler follows the queue, got 4",
        ),
        (
            {"models": {"fraud": {"slo": {"ttft_p95_ms": 50}}}},
            f"{OF_MODEL}.slo.ttft_p95_ms must not be set when task is predict",
        ),
        (
            {
                "guardrails": {"armor": {"kind": "model-armor", "failure": "closed"}},
                "models": {"fraud": {"guardrails": ["armor"]}},
            },
            f"{OF_MODEL}.guardrails must not be set when task is predict: guardrails read text, not"
            " tensors, got 'armor'",
        ),
        (
            {"models": {"fraud": {"capacity": "gpus", "canary": {"engine": "vllm"}}}},
            f"{OF_MODEL}.canary.engine must be tritonserver when task is predict, got 'vllm'",
        ),
        (
            {"clients": {"teams": {"support": {"models": None, "requests_per_minute": None}}}},
            "clients.teams.support.requests_per_minute must be set with tokens_per_minute: requests"
            " to fraud (task predict) have no tokens, so that no other limit applies to them, got"
            " none",
        ),
        (
            {
                "clients": {
                    "prices": {"fraud": {"input_usd_per_million": 1, "output_usd_per_million": 1}}
                }
            },
            "clients.prices.fraud must be of a model with tokens, and the task of this one is"
            " predict",
        ),
        (
            {"batches": {"models": ["fraud"]}},
            "batches.models[0] must be a model of task generate, embed or image, got 'fraud'",
        ),
        (
            {"models": {"qwen3-4b": {"context": None}}},
            "models.qwen3-4b.context",
        ),
    ],
)
def test_what_does_not_apply_to_tensors_is_rejected(
    document: dict[str, Any], change: dict[str, Any], expected: str
):
    with pytest.raises(Exception, match=r"must|required") as refused:
        parse(changed(document, change))
    assert expected in str(refused.value)


def test_a_context_is_required_for_every_other_task(document: dict[str, Any]):
    text = json.loads(json.dumps(document))
    del text["models"]["qwen3-4b"]["context"]
    with pytest.raises(Exception, match=r"models\.qwen3-4b\.context is required when task is gen"):
        parse(json.dumps(text))
