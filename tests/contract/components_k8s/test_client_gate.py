"""The gate in front of a Gateway: what its objects say, and what its program is configured with."""

import json
from typing import Any

import pulumi
import pytest

from gke_inference import AnswerStore, ClientGate, ClientKeys, CounterStore
from tests.contract.components_k8s.crds import check

ARGS: dict[str, Any] = {
    "gate_name": "client-gate",
    "gateway_name": "inference",
    "keys": "projects/acme/secrets/client-keys",
    "models": {"llama-3.1-8b": {"adapters": ["sql"], "pool_name": "llama-8b"}},
    "namespace": "serving",
    "region": "us-east5",
    "service_account": "client-gate",
    "store": "10.0.0.9:6379",
    "teams": {
        "assistant": {"models": ["llama-3.1-8b"], "requests_per_minute": 60},
        "nightly": {"priority": "batch", "tokens_per_month": 1000},
    },
}
CACHE: dict[str, Any] = {
    "embeddings_model": "bge-m3",
    "embeddings_url": "http://bge-m3.serving.svc:8000",
    "models": ["llama-3.1-8b"],
    "store": "10.0.0.8:6379",
}
EXTENSION = "kubernetes:networking.gke.io/v1:GCPTrafficExtension"
STORE: dict[str, Any] = {
    "instance_id": "acme-counters",
    "location": "us-east5",
    "network": "projects/acme/global/networks/net",
    "project": "acme",
    "subnetworks": ["projects/acme/regions/us-east5/subnetworks/nodes"],
}


def built(recorder, **changes: Any) -> None:
    args: Any = {**ARGS, **changes}
    recorder.run(lambda: ClientGate("gate", args).extension_name)


def configured(recorder, **changes: Any) -> dict[str, Any]:
    built(recorder, **changes)
    found = recorder.one("kubernetes:core/v1:ConfigMap").inputs["data"]
    return json.loads(found["callout.yaml"])


CERTIFICATES: dict[str, Any] = {
    "networks": ["10.3.0.0/24"],
    "teams": {"spiffe://example.org/lab": "assistant", f"sha256:{'a' * 64}": "nightly"},
}


def test_the_gate_believes_certificates_from_the_load_balancer_in_front_only(recorder):
    found = configured(recorder, certificates=CERTIFICATES)["certificates"]
    assert found == {"from": CERTIFICATES["networks"], "teams": CERTIFICATES["teams"]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"networks": []}, "certificates.networks.*must have at least 1 entry"),
        ({"networks": ["10.3.0.1/24"]}, r"certificates.networks\[0\].*must be a CIDR"),
        ({"teams": {"CN=lab": "assistant"}}, "certificates.teams.*must be a SPIFFE ID"),
        ({"teams": {"dns:a.example.org": "other"}}, "must be one of assistant, nightly"),
    ],
)
def test_certificates_name_networks_identities_and_teams(recorder, change, message):
    with pytest.raises(pulumi.InputPropertyError, match=message):
        built(recorder, certificates=CERTIFICATES | change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"team": "other"}, "people.team.*must be one of assistant, nightly"),
        ({"audience": "front-people"}, "people.audience.*must be /projects/NUMBER/global/"),
    ],
)
def test_people_name_a_team_and_the_audience_of_a_backend_service(recorder, change, message):
    people = {"audience": "/projects/1/global/backendServices/2", "team": "assistant"}
    with pytest.raises(pulumi.InputPropertyError, match=message):
        built(recorder, people=people | change)


def test_a_team_with_a_spent_budget_has_a_cheaper_model_for_the_models_that_it_names(recorder):
    prices = {"llama-3.1-8b": {"input_usd_per_million": 2, "output_usd_per_million": 2}}
    prices["sql"] = {"input_usd_per_million": 1, "output_usd_per_million": 1}
    team = {
        "models": ["llama-3.1-8b", "sql"],
        "monthly_usd": 10,
        "when_spent": {"model": "sql", "unlimited": True},
    }
    changes = {"prices": prices, "teams": {"assistant": team}}
    found = configured(recorder, replaced_models={"assistant": ["llama-3.1-8b"]}, **changes)
    spent = found["teams"]["assistant"]["when_spent"]
    assert spent == {"model": "sql", "replaces": ["llama-3.1-8b"]}
    with pytest.raises(pulumi.InputPropertyError, match="needs 'replaced_models' of the team"):
        built(recorder, **changes)
    with pytest.raises(pulumi.InputPropertyError, match="must list other models than the one"):
        built(recorder, replaced_models={"assistant": ["llama-3.1-8b", "sql"]}, **changes)


def test_the_load_balancer_asks_the_gate_about_whole_requests_and_fails_closed(recorder):
    built(recorder)
    extension = recorder.one(EXTENSION).inputs
    check(extension)
    (chain,) = extension["spec"]["extensionChains"]
    (called,) = chain["extensions"]
    assert called["failOpen"] is False
    assert called["requestBodySendMode"] == called["responseBodySendMode"] == "FullDuplexStreamed"
    assert called["backendRef"]["name"] == "client-gate"
    assert extension["spec"]["targetRefs"][0]["name"] == "inference"


def test_a_gate_is_checked_and_scraped_like_every_backend(recorder):
    built(recorder)
    for kind in (
        "networking.gke.io/v1:HealthCheckPolicy",
        "monitoring.googleapis.com/v1:PodMonitoring",
    ):
        check(recorder.one(f"kubernetes:{kind}").inputs)
    pod = recorder.one("kubernetes:apps/v1:Deployment").inputs["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    policy = recorder.one("kubernetes:networking.gke.io/v1:HealthCheckPolicy").inputs["spec"]
    probe = policy["default"]
    assert probe["config"]["grpcHealthCheck"]["port"] == ports["grpc-health"]
    # two failed probes, 4 s: requests that a lost replica would get fail until then
    assert (probe["checkIntervalSec"], probe["timeoutSec"]) == (2, 2)
    assert f"--metrics-port={int(ports['metrics'])}" in container["args"]


def test_a_gate_may_follow_an_answer_for_as_long_as_any_model_may_take(recorder):
    built(recorder)
    policy = recorder.one("kubernetes:networking.gke.io/v1:GCPBackendPolicy").inputs
    check(policy)
    assert policy["spec"] == {
        "default": {"timeoutSec": 3600},
        "targetRef": {"group": "", "kind": "Service", "name": "client-gate"},
    }


def test_the_program_knows_where_the_client_is_among_the_addresses_of_load_balancers(recorder):
    built(recorder, forwarded_hops=4.0)
    pod = recorder.one("kubernetes:apps/v1:Deployment").inputs["spec"]["template"]["spec"]
    assert "--forwarded-hops=4" in pod["containers"][0]["args"]


@pytest.mark.parametrize("hops", [0, 11])
def test_a_position_that_no_load_balancer_writes_is_refused(recorder, hops):
    with pytest.raises(pulumi.InputPropertyError, match="must be 1 to 10"):
        built(recorder, forwarded_hops=hops)


def test_a_team_has_its_models_its_limits_and_the_name_of_its_priority(recorder):
    found = configured(recorder)
    assert found["teams"] == {
        "assistant": {
            "models": ["llama-3.1-8b"],
            "objective": "interactive",
            "requests_per_minute": 60,
        },
        "nightly": {"models": ["*"], "objective": "batch", "tokens_per_month": 1000},
    }


def test_an_adapter_has_the_pool_of_its_model(recorder):
    assert configured(recorder)["pools"] == {"llama-3.1-8b": "llama-8b", "sql": "llama-8b"}


def test_a_claim_without_a_table_names_the_team_itself(recorder):
    issuer = {"audiences": ["a"], "claim": "t", "issuer": "https://x", "jwks_uri": "https://x"}
    (found,) = configured(recorder, issuers=[issuer])["jwt"]
    assert found["teams"] == {"assistant": "assistant", "nightly": "nightly"}


def test_requests_without_a_credential_have_a_team_where_they_pass(recorder):
    assert configured(recorder, anonymous=True)["teams"]["anonymous"] == {
        "models": ["*"],
        "objective": "interactive",
    }


def test_without_a_store_each_replica_counts_for_itself(recorder):
    found = configured(recorder, store=None, replicas=3)
    assert "store" not in found
    assert found["replicas"] == 3


def test_an_issuer_has_its_header_and_the_teams_of_its_claim(recorder):
    issuer = {
        "audiences": ["models"],
        "claim": "group",
        "issuer": "https://login.example.com",
        "jwks_uri": "https://login.example.com/keys",
        "teams": {"g-7": "nightly"},
    }
    (found,) = configured(recorder, issuers=[issuer])["jwt"]
    assert found == {**issuer, "header": "authorization"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"teams": {}}, "teams: must have one team or more, got none"),
        ({"replicas": 0}, "replicas: must be 1 to 20, got 0"),
        (
            {"teams": {"a": {"requests_per_minute": 0}}},
            "teams.a.requestsPerMinute: must be 1 to 1000000000000, got 0",
        ),
        (
            {"teams": {"a": {"priority": "urgent"}}},
            "teams.a.priority: must be one of interactive, batch, got 'urgent'",
        ),
        (
            {"teams": {"a": {"monthly_usd": 0}}},
            "teams.a.monthlyUsd: must be more than 0 and at most 1000000000, got 0",
        ),
        (
            {"teams": {"a": {"monthly_usd": 2e9}}},
            "teams.a.monthlyUsd: must be more than 0 and at most 1000000000, got 2000000000",
        ),
        (
            {"teams": {"a": {"monthly_usd": 5}}},
            "teams.a.monthlyUsd: needs 'prices' of every model that the team may use, got 5.0 "
            "without that of llama-3.1-8b",
        ),
        (
            {"prices": {"sql": {"input_usd_per_million": -1, "output_usd_per_million": 1}}},
            "prices.sql.inputUsdPerMillion: must be 0 to 1000000, got -1",
        ),
        (
            {
                "issuers": [
                    {"audiences": [], "claim": "t", "issuer": "https://x", "jwks_uri": "https://x"}
                ]
            },
            "issuers[0].audiences: must have at least 1 entry, got 0",
        ),
        (
            {
                "issuers": [
                    {
                        "audiences": ["a"],
                        "claim": "t",
                        "issuer": "https://x",
                        "jwks_uri": "http://x",
                    }
                ]
            },
            "issuers[0].jwksUri: must be a URL that starts with https://, got 'http://x'",
        ),
        (
            {"teams": {"a": {"cached_answers": True}}},
            "teams.a.cachedAnswers: needs 'cache', got true",
        ),
        (
            {"cache": {**CACHE, "threshold": 1.5}},
            "cache.threshold: must be more than 0 and at most 1, got 1.5",
        ),
        ({"cache": {**CACHE, "ttl_seconds": 0}}, "cache.ttlSeconds: must be 1 to 2592000, got 0"),
        ({"cache": {**CACHE, "models": []}}, "cache.models: must have at least 1 entry, got 0"),
        (
            {"session_headers": ["session-id", "session-id"]},
            "sessionHeaders[1]: must not repeat a header, got 'session-id' twice",
        ),
    ],
)
def test_a_gate_that_cannot_be_is_refused(recorder, changes: dict[str, Any], message: str):
    with pytest.raises(pulumi.InputPropertyError) as refused:
        built(recorder, **changes)
    error = refused.value
    assert f"{error.property_path}: {error.reason}".startswith(message)


def test_the_secret_of_the_keys_has_no_version_and_only_its_readers(recorder):
    args: Any = {"project": "acme", "readers": ["principal://gate"], "secret_id": "client-keys"}
    assert recorder.run(lambda: ClientKeys("keys", args).secret) == ARGS["keys"]
    assert recorder.counts() == {"ClientKeys": 1, "Secret": 1, "SecretIamMember": 1}
    assert recorder.one("gcp:secretmanager/secret:Secret").inputs["replication"] == {"auto": {}}
    grant = recorder.one("gcp:secretmanager/secretIamMember:SecretIamMember").inputs
    assert grant["role"] == "roles/secretmanager.secretAccessor"


def test_a_secret_keeps_its_copies_where_it_is_told_to(recorder):
    args: Any = {"locations": ["us-east5"], "project": "acme", "secret_id": "client-keys"}
    recorder.run(lambda: ClientKeys("keys", args).secret)
    replication = recorder.one("gcp:secretmanager/secret:Secret").inputs["replication"]
    assert replication == {"userManaged": {"replicas": [{"location": "us-east5"}]}}


def test_counters_are_reached_where_they_are_written(recorder):
    args: Any = STORE
    assert recorder.run(lambda: CounterStore("store", args).address) == "10.0.0.9:6379"
    policy = recorder.one(
        "gcp:networkconnectivity/serviceConnectionPolicy:ServiceConnectionPolicy"
    ).inputs
    assert policy["serviceClass"] == "gcp-memorystore"
    assert policy["pscConfig"]["subnetworks"] == STORE["subnetworks"]


def test_a_network_that_has_a_connection_policy_gets_no_second_one(recorder):
    args: Any = {**STORE, "existing_policy": True}
    recorder.run(lambda: CounterStore("store", args).address)
    assert recorder.counts() == {"CounterStore": 1, "Instance": 1}


def test_a_cache_is_for_the_teams_that_share_answers(recorder):
    teams = {"assistant": {"cached_answers": True}, "nightly": {}}
    found = configured(recorder, cache=CACHE, teams=teams)
    found["cache"].pop("epoch")
    assert found["cache"] == {
        "embeddings": {"model": "bge-m3", "url": "http://bge-m3.serving.svc:8000"},
        "models": ["llama-3.1-8b"],
        "store": {"address": "10.0.0.8:6379"},
        "threshold": 0.95,
        "ttl_seconds": 86400,
    }
    assert [name for name, team in found["teams"].items() if team.get("cache")] == ["assistant"]


def test_another_guard_begins_another_cache_as_it_has_not_seen_the_answers(engine):
    guard = {
        "failure": "closed",
        "phases": ["output"],
        "timeout_ms": 500,
        "url": "http://g.s.svc:8",
    }
    guarded = {"guarded_models": {"llama-3.1-8b": ["g"]}, "guards": {"g": guard}}
    teams = {"assistant": {"cached_answers": True}}
    epochs = [
        configured(engine(), cache=CACHE, teams=teams, **more)["cache"]["epoch"]
        for more in ({}, {}, guarded)
    ]
    assert epochs[0] == epochs[1] != epochs[2]


def test_a_full_store_of_answers_forgets_what_nobody_asks_and_counters_are_never_forgotten(
    recorder,
):
    args: Any = STORE
    recorder.run(lambda: AnswerStore("answers", args).address)
    instance = recorder.one("gcp:memorystore/instance:Instance").inputs
    assert instance["engineConfigs"] == {"maxmemory-policy": "allkeys-lru"}


def test_a_gate_trusts_the_authorities_of_its_stores_and_no_others(recorder):
    args: Any = STORE
    found = recorder.run(lambda: CounterStore("store", args).certificates)
    assert found == "PEM of the store"
    instance = recorder.one("gcp:memorystore/instance:Instance").inputs
    assert instance["transitEncryptionMode"] == "SERVER_AUTHENTICATION"


def test_a_store_with_certificates_is_asked_by_tls(recorder):
    cache = {**CACHE, "store_certificates": "PEM of answers"}
    settings = configured(
        recorder,
        cache=cache,
        store_certificates="PEM of counters",
        teams={"assistant": {"cached_answers": True}},
    )
    assert settings["store"] == {"address": "10.0.0.9:6379", "ca": "PEM of counters", "tls": True}
    assert settings["cache"]["store"]["ca"] == "PEM of answers"


def test_counters_keep_the_policy_of_memorystore(recorder):
    args: Any = STORE
    recorder.run(lambda: CounterStore("store", args).address)
    assert "engineConfigs" not in recorder.one("gcp:memorystore/instance:Instance").inputs
