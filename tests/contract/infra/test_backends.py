"""Backends of a stack: one relay in each region, roles on what is named, and pools that spill."""

import copy
import json
from typing import Any

import pytest

from infra.estimate.stack_cost import stack_cost
from infra.plan import resolve
from infra.reading.load import parse, platform_of
from infra.stack.problems import StackError
from tests.shipped_stacks import EXAMPLES

MODEL = "llama-3.1-8b"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
POLICY = "kubernetes:networking.k8s.io/v1:NetworkPolicy"


def document() -> dict[str, Any]:
    """Return the example of the repository, for a test to change."""
    return copy.deepcopy(platform_of(EXAMPLES / "backends" / "Pulumi.backends.yaml"))


@pytest.fixture
def seen(deployed) -> Any:
    return deployed(parse(json.dumps(document())))


def settings_of(seen: Any) -> dict[str, dict[str, Any]]:
    """Return the configuration of each relay by the name of its ConfigMap."""
    maps = [each.inputs for each in seen.all(CONFIG_MAP)]
    return {
        each["metadata"]["name"]: json.loads(each["data"]["relay.yaml"])
        for each in maps
        if "relay.yaml" in each.get("data", {})
    }


def test_a_relay_knows_each_backend_by_address_model_and_credential(seen):
    found = settings_of(seen)["relay"]["backends"]
    assert sorted(found) == sorted(document()["backends"])
    assert all(backend["force_usage"] for backend in found.values())
    vertex, gemini = found["gemini-flash"]["targets"]
    host = "https://us-central1-aiplatform.googleapis.com"
    path = "/v1/projects/acme-inference-backends/locations/us-central1/endpoints/openapi"
    assert vertex["url"] == host + path
    assert (vertex["auth"], vertex["weight"]) == ({"kind": "google"}, 9)
    assert gemini["url"] == "https://generativelanguage.googleapis.com/v1beta/openai"
    secret = "projects/acme-inference-backends/secrets/acme-backends-gemini-key"
    assert gemini["auth"] == {"kind": "secret", "secret": secret}
    (small,) = found["small"]["targets"]
    assert small["url"] == "https://gemma-314159265358.us-central1.run.app/v1"
    assert small["auth"] == {
        "audience": "https://gemma-314159265358.us-central1.run.app",
        "kind": "id-token",
        "service_account": ("acme-backends-relay@acme-inference-backends.iam.gserviceaccount.com"),
    }
    assert found["on-premises"]["targets"][0]["auth"] == {"kind": "none"}


def test_requests_are_routed_to_the_relay_by_the_header_of_the_body_router(seen):
    routes = [each.inputs for each in seen.all("kubernetes:gateway.networking.k8s.io/v1:HTTPRoute")]
    rules = [rule for each in routes for rule in each["spec"]["rules"]]
    to_relay = [rule for rule in rules if rule["backendRefs"][0]["name"] == "relay"]
    names = [match["headers"][0]["value"] for rule in to_relay for match in rule["matches"]]
    assert sorted(names) == sorted(document()["backends"])
    assert {rule["backendRefs"][0]["kind"] for rule in to_relay} == {"Service"}


def test_models_that_run_elsewhere_are_listed_with_the_others(seen):
    maps = [each.inputs.get("data", {}) for each in seen.all(CONFIG_MAP)]
    (listed,) = [json.loads(data["models.json"]) for data in maps if "models.json" in data]
    assert [each["id"] for each in listed["data"]] == sorted([MODEL, *document()["backends"]])


def test_a_relay_may_use_only_what_the_backends_name(seen):
    relay = "/subject/ns/models/sa/relay"
    secrets = seen.all("gcp:secretmanager/secretIamMember:SecretIamMember")
    granted = [each.inputs["role"] for each in secrets if each.inputs["member"].endswith(relay)]
    assert granted == ["roles/secretmanager.secretAccessor"] * 3
    roles = [
        each.inputs["role"]
        for each in seen.all("gcp:projects/iAMMember:IAMMember")
        if each.inputs["member"].endswith(relay)
    ]
    assert roles == ["roles/aiplatform.user"]
    (invoker,) = seen.all("gcp:cloudrunv2/serviceIamMember:ServiceIamMember")
    assert invoker.inputs["role"] == "roles/run.invoker"
    assert invoker.inputs["name"] == "gemma"
    (creator,) = seen.all("gcp:serviceaccount/iAMMember:IAMMember")
    assert creator.inputs["role"] == "roles/iam.serviceAccountOpenIdTokenCreator"
    assert creator.inputs["member"].endswith(relay)


def test_no_key_is_in_the_state(seen):
    assert not seen.all("gcp:secretmanager/secretVersion:SecretVersion")


def test_the_apis_of_backends_are_switched_on_only_where_they_are_called():
    platform = parse(json.dumps(document()))
    wanted = {"aiplatform.googleapis.com", "iamcredentials.googleapis.com"}
    assert wanted <= set(resolve(platform).project.services)
    without = document()
    del without["models"][MODEL]["fallback"], without["backends"]
    without["clients"]["teams"]["assistant"]["models"] = [MODEL]
    without["clients"]["prices"] = {MODEL: without["clients"]["prices"][MODEL]}
    plain = parse(json.dumps(without))
    assert not wanted & set(resolve(plain).project.services)
    assert "relay" in resolve(platform).images.needed
    assert "relay" not in resolve(plain).images.needed


def test_the_tokens_of_backends_are_a_line_of_the_cost_without_a_price():
    found = stack_cost(resolve(parse(json.dumps(document()))))
    (line,) = [each for each in found.parts if each.what.startswith("Tokens of backends")]
    assert line.quantity.startswith("6")
    assert [each.what for each in found.missing if each.what == line.what] == [line.what]


def test_a_fallback_is_a_replica_of_the_pool_and_of_nothing_else(seen):
    pool = seen.object("kubernetes:inference.networking.k8s.io/v1:InferencePool", "llama-3-1-8b")
    selector = pool["spec"]["selector"]["matchLabels"]
    fallback = seen.object(DEPLOYMENT, "relay-llama-3-1-8b")
    labels = fallback["spec"]["template"]["metadata"]["labels"]
    assert selector.items() <= labels.items()
    deployments = [each.inputs for each in seen.all(DEPLOYMENT)]
    engines = [
        each
        for each in deployments
        if each["spec"]["template"]["metadata"]["labels"].get("app.kubernetes.io/component")
        == "model-server"
    ]
    assert len(engines) == 2
    for engine in engines:
        assert selector.items() <= engine["spec"]["template"]["metadata"]["labels"].items()
        assert not engine["spec"]["selector"]["matchLabels"].items() <= labels.items()
    others = [
        *(each.inputs for each in seen.all("kubernetes:policy/v1:PodDisruptionBudget")),
        *(
            each.inputs
            for each in seen.all("kubernetes:monitoring.googleapis.com/v1:PodMonitoring")
        ),
    ]
    taken = [
        each["metadata"]["name"]
        for each in others
        if each["spec"]["selector"]["matchLabels"].items() <= labels.items()
    ]
    assert taken == 2 * ["relay-llama-3-1-8b"], "its own budget and scraping alone"
    running = [
        each["metadata"]["name"]
        for each in deployments
        if selector.items() <= each["spec"]["template"]["metadata"]["labels"].items()
    ]
    assert sorted(running) == sorted(
        ["relay-llama-3-1-8b", *(engine["metadata"]["name"] for engine in engines)]
    )


def test_a_fallback_knows_its_engines_its_money_and_whom_it_refuses(seen):
    found = settings_of(seen)["relay-llama-3-1-8b"]
    assert list(found["backends"]) == [MODEL]
    fallback = found["fallback"]
    assert (fallback["after_queue"], fallback["monthly_usd"]) == (8, 500)
    assert fallback["input_usd_per_million"] == 0.3
    assert fallback["selector"] == {
        "app.kubernetes.io/component": "model-server",
        "app.kubernetes.io/name": "llama-3-1-8b",
    }
    assert fallback["metrics"]["queue"] == "vllm:num_requests_waiting"
    assert fallback["refused_objectives"] == ["llama-3-1-8b-batch"]
    assert fallback["count"] == "relay-llama-3-1-8b-spent"


def test_only_a_fallback_has_a_token_of_the_cluster_and_may_change_its_count_alone(seen):
    def has_token(name: str) -> bool:
        spec = seen.object(DEPLOYMENT, name)["spec"]["template"]["spec"]
        return spec["automountServiceAccountToken"]

    assert (has_token("relay"), has_token("relay-llama-3-1-8b")) == (False, True)
    role = seen.object("kubernetes:rbac.authorization.k8s.io/v1:Role", "relay-llama-3-1-8b")
    pods, count = role["rules"]
    assert (pods["resources"], pods["verbs"]) == (["pods"], ["get", "list"])
    assert count["resourceNames"] == ["relay-llama-3-1-8b-spent"]
    assert count["verbs"] == ["get", "patch"]


def test_relays_reach_the_ports_of_their_backends_and_a_fallback_its_engines(seen):
    def ports(name: str) -> list[int]:
        rules = seen.object(POLICY, name)["spec"]["egress"]
        return [port["port"] for rule in rules for port in rule["ports"]]

    assert ports("relay") == [53, 53, 443, 8000, 988, 80]
    assert ports("relay-llama-3-1-8b") == [53, 53, 443, 988, 80, 8000]
    reads = seen.object(POLICY, "relay-llama-3-1-8b-reads")["spec"]
    assert reads["policyTypes"] == ["Ingress"]
    assert reads["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "model-server"


def set_at(document: dict[str, Any], path: list[Any], value: Any) -> None:
    for part in path[:-1]:
        document = document[part]
    if value is None:
        del document[path[-1]]
    else:
        document[path[-1]] = value


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            ["backends", "gpt", "secret"],
            None,
            "backends.gpt.secret is required when kind is openai",
        ),
        (
            ["backends", "gpt", "location"],
            "us-central1",
            "backends.gpt.location must not be set when kind is openai, got 'us-central1'",
        ),
        (
            ["backends", "vertex-llama", "location"],
            None,
            "backends.vertex-llama.location is required when kind is vertex",
        ),
        (
            ["backends", "small", "url"],
            "http://gemma.example.com",
            "backends.small.url must begin with https:// when a credential is sent, got",
        ),
        (
            ["backends", "on-premises", "secret"],
            "dc-key",
            "backends.on-premises.url must begin with https:// when a credential is sent, got",
        ),
        (["backends", "gpt", "kind"], None, "backends.gpt.kind is required without 'targets'"),
        (
            ["backends", "gemini-flash", "model"],
            "m",
            "backends.gemini-flash.model must not be set together with 'targets'",
        ),
        (["backends", "gpt", "kind"], "openia", "did you mean 'openai'?"),
        (
            ["backends", "on-premises", "url"],
            "https://user:pass@llm.example.com/v1",
            "must be an address such as https://llm.example.com/v1, without credentials or query",
        ),
        (
            ["models", MODEL, "fallback", "backend"],
            "vertex",
            f"models.{MODEL}.fallback.backend must be one of",
        ),
        (
            ["models", MODEL, "fallback", "monthly_usd"],
            0,
            f"models.{MODEL}.fallback.monthly_usd must be more than 0",
        ),
        (
            ["models", MODEL, "adapters"],
            ["sql"],
            f"models.{MODEL}.fallback must not be set when a model has adapters",
        ),
        (
            ["clients", "prices", "vertex-llama"],
            None,
            f"models.{MODEL}.fallback.monthly_usd needs 'clients.prices' of vertex-llama",
        ),
        (
            ["clients", "prices", "gpt"],
            None,
            "clients.teams.assistant.monthly_usd needs 'clients.prices' of every model",
        ),
    ],
)
def test_a_wrong_backend_is_refused_in_one_message(path: list[Any], value: Any, message: str):
    changed = document()
    set_at(changed, path, value)
    with pytest.raises(StackError) as refused:
        parse(json.dumps(changed))
    assert message in str(refused.value)
    assert len(refused.value.problems) == 1


def test_a_platform_that_others_share_has_no_backends():
    changed = copy.deepcopy(platform_of(EXAMPLES / "teams" / "Pulumi.shared.yaml"))
    changed["backends"] = {"gpt": document()["backends"]["gpt"]}
    with pytest.raises(StackError, match="backends must not be set when layer is platform"):
        parse(json.dumps(changed))


def test_a_backend_may_not_have_the_name_of_a_model():
    changed = document()
    changed["backends"][MODEL] = changed["backends"]["gpt"]
    with pytest.raises(StackError, match="must have a name that no model or adapter uses"):
        parse(json.dumps(changed))


def test_streams_that_stall_end_in_the_gate_and_in_the_relay_as_the_stack_sets(deployed):
    found = document()
    found["clients"]["stream_idle_seconds"] = 60
    found["backends"]["claude"]["idle_seconds"] = 20
    seen = deployed(parse(json.dumps(found)))
    relay = settings_of(seen)["relay"]["backends"]
    assert relay["claude"]["idle_seconds"] == 20
    assert "idle_seconds" not in relay["on-premises"]
    gates = [each.inputs.get("data", {}).get("callout.yaml") for each in seen.all(CONFIG_MAP)]
    (gate,) = [json.loads(text) for text in gates if text]
    assert gate["stream_idle_seconds"] == 60


def test_a_stream_of_a_backend_stalls_before_its_time_is_over():
    found = document()
    found["backends"]["claude"] |= {"idle_seconds": 30, "timeout_seconds": 30}
    with pytest.raises(StackError, match="idle_seconds must be less than timeout_seconds, 30"):
        parse(json.dumps(found))
