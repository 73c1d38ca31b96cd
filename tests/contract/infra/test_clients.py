"""Clients of a stack: what a region builds for them, and what stays as it was without them."""

import json
import re
from typing import Any

import pytest

from gke_inference.catalogue.engines import engine
from gke_inference.clients.settings import TeamSettings
from infra.deploy.clients_arguments import gate_args, salted_paths
from infra.estimate.stack_cost import stack_cost
from infra.plan import resolve
from infra.plan.clients import team_in
from infra.reading.load import parse
from infra.stack import ClientTeam, Model, TeamLimits
from infra.stack.gateway import Fairness, FairSessions
from infra.stack.models import Canary
from infra.stack.problems import StackError
from tests.contract.infra.broken_stacks import edited

TEAMS = {"assistant": {"requests_per_minute": 60}}
LOCAL = {"counters": "local", "teams": TEAMS}
CACHE = {"embeddings": "qwen3-embedding-0.6b"}
OWN = "us-central1"
"""Region with a limit of its own."""


def platform_with(base: str, clients: dict[str, Any]) -> Any:
    return parse(json.dumps(edited(base, [{"at": ["clients"], "value": clients}])))


def with_teams() -> Any:
    """Return prod with a team that has limits, turns and kept answers; tests share it.

    One region lacks one of the models, and one has a limit of its own.
    """
    regional = {OWN: {"requests_per_minute": 7}}
    team = {"requests_per_minute": 90, "regional": regional, "cached_answers": True}
    prod = platform_with("prod", {"cache": CACHE, "teams": {"assistant": team}})
    qwen = prod.models["qwen3-32b"].model_copy(update={"regions": ("us-central1", "europe-west4")})
    turns = prod.gateway.model_copy(update={"fairness": Fairness(sessions=FairSessions())})
    models = {**prod.models, "qwen3-32b": qwen}
    return prod.model_copy(update={"gateway": turns, "models": models})


def settings_of(recorder: Any) -> list[dict[str, Any]]:
    maps = [seen.inputs["data"] for seen in recorder.all("kubernetes:core/v1:ConfigMap")]
    return [json.loads(data["callout.yaml"]) for data in maps if "callout.yaml" in data]


def test_each_region_has_a_gate_with_its_own_counters_and_all_share_the_keys(deployed) -> None:
    seen = deployed(with_teams())
    regions = ["asia-northeast1", "europe-west4", "us-central1"]
    found = settings_of(seen)
    assert sorted(one["region"] for one in found) == regions
    secrets = {one["keys"]["secret"] for one in found}
    assert secrets == {"projects/acme-inference-prod/secrets/acme-prod-client-keys"}
    stores = [
        store.inputs["location"]
        for store in seen.all("gcp:memorystore/instance:Instance")
        if store.inputs["instanceId"] == "acme-prod-counters"
    ]
    assert sorted(stores) == regions
    (grant,) = seen.all("gcp:secretmanager/secretIamMember:SecretIamMember")
    assert grant.inputs["member"].endswith("/subject/ns/models/sa/client-gate")


def salted(*, is_shared: bool) -> dict[str, list[str]]:
    """Return the paths with salts in a region of prod."""
    platform = platform_with("prod", {"shared_prefix_cache": is_shared, "teams": TEAMS})
    region = resolve(platform).regions[OWN]
    assert region.gate is not None
    return gate_args(region.gate, region, platform.gateway, []).get("cache_salt_paths", {})


def test_engines_separate_teams_on_the_paths_that_they_know_unless_the_cache_is_shared() -> None:
    found = salted(is_shared=False)
    assert found["qwen3-32b"] == list(engine("vllm").cache_salt)
    assert found["llama-3.1-8b"] == found["qwen3-32b"]
    assert salted(is_shared=True) == {}


@pytest.mark.parametrize(
    ("own", "of_canary", "paths"),
    [
        ("sglang", None, engine("sglang").cache_salt),
        ("vllm", "sglang", engine("sglang").cache_salt),
        ("vllm", "triton", ()),
        ("tgi", None, ()),
    ],
)
def test_a_model_and_its_canary_must_both_know_the_salt(
    own: str, of_canary: str | None, paths: tuple[str, ...]
) -> None:
    of_its_canary: dict[str, Any] = {"engine": of_canary}
    canary = None if of_canary is None else Canary.model_construct(**of_its_canary)
    of_the_model: dict[str, Any] = {"engine": own, "canary": canary}
    model = Model.model_construct(**of_the_model)
    assert salted_paths(model) == list(paths)


def test_a_region_has_its_part_of_the_limits_of_a_month() -> None:
    team = {"monthly_usd": 100.0, "tokens_per_month": 100}
    shares = {"us-central1": 0.5, "europe-west4": 0.29, "asia-northeast1": 0.21}
    price = {"llama-3.1-8b": {"input_usd_per_million": 1, "output_usd_per_million": 1}}

    def parts(**more: Any) -> dict[str, tuple[float | None, int | None]]:
        made = {"models": ["llama-3.1-8b"], **team, **more}
        platform = platform_with("prod", {"teams": {"shop": made}, "prices": price})
        regions = resolve(platform).regions
        gates = {name: region.gate for name, region in regions.items() if region.gate is not None}
        found = {region: gates[region].teams["shop"] for region in shares}
        return {name: (each.monthly_usd, each.tokens_per_month) for name, each in found.items()}

    assert set(parts().values()) == {(33.33, 33)}
    assert list(parts(monthly_shares=shares).values()) == [(50, 50), (29, 29), (21, 21)]


def test_a_limit_of_a_region_replaces_that_of_the_team() -> None:
    regions = ("us-central1", "europe-west4")
    own = TeamLimits(requests_per_minute=None, tokens_per_minute=10)
    team = ClientTeam(requests_per_minute=6, regional={"us-central1": own})
    assert team_in(team, "europe-west4", regions) == TeamSettings(requests_per_minute=6)
    assert team_in(team, "us-central1", regions) == TeamSettings(tokens_per_minute=10)


@pytest.mark.parametrize(
    ("team", "message"),
    [
        ({"monthly_shares": {"us-central1": 1.0}}, "needs 'monthly_usd' or 'tokens_per_month'"),
        ({"monthly_shares": {"us-west1": 1.0}}, "monthly_shares.us-west1 must be one of"),
        (
            {"monthly_shares": {"us-central1": 1.0}},
            "region with a gateway, got none for europe-west4, asia-northeast1",
        ),
        (
            {
                "monthly_shares": {
                    "us-central1": 0.5,
                    "europe-west4": 0.5,
                    "asia-northeast1": 0.1,
                }
            },
            "monthly_shares must add up to 1, got 1.1",
        ),
        (
            {"monthly_shares": {"us-central1": 1.0, "europe-west4": 0, "asia-northeast1": 0}},
            "monthly_shares.europe-west4 must be more than 0, got 0",
        ),
        (
            {"tokens_per_month": 2},
            "tokens_per_month must give us-central1 at least one cent (or token)",
        ),
    ],
)
def test_shares_of_regions_are_checked(team: dict[str, Any], message: str) -> None:
    limit = {} if message.startswith("needs") else {"tokens_per_month": 1000}
    with pytest.raises(StackError, match=re.escape(message)):
        platform_with("prod", {"teams": {"assistant": {**limit, **team}}})


@pytest.mark.parametrize(
    ("regional", "message"),
    [
        ({"us-west1": {"tokens_per_minute": 1}}, "regional.us-west1 must be one of"),
        ({"us-central1": {}}, "regional.us-central1 must have a limit, got none"),
        ({"us-central1": {"monthly_usd": 5}}, "regional.us-central1.monthly_usd"),
    ],
)
def test_limits_of_a_region_are_checked(regional: dict[str, Any], message: str) -> None:
    with pytest.raises(StackError, match=re.escape(message)):
        platform_with("prod", {"teams": {"assistant": {"regional": regional}}})


def test_the_gate_of_a_region_has_the_limits_of_that_region(deployed) -> None:
    found = settings_of(deployed(with_teams()))
    limits = {one["region"]: one["teams"]["assistant"]["requests_per_minute"] for one in found}
    assert limits.pop(OWN) == 7
    assert list(limits.values()) == [90, 90]


def test_a_gate_knows_the_models_of_its_region_and_their_pools(deployed) -> None:
    found = {one["region"]: one for one in settings_of(deployed(with_teams()))}
    assert "qwen3-32b" in found["us-central1"]["pools"]
    assert "qwen3-32b" not in found["asia-northeast1"]["pools"]
    assert found["us-central1"]["pools"]["sql"] == "llama-3-1-8b"
    assert "qwen3-embedding-0.6b" not in found["us-central1"]["pools"]


def test_gates_and_pickers_of_all_regions_order_the_requests_of_a_team_by_session(deployed) -> None:
    seen = deployed(with_teams())
    headers = ["x-session-id", "x-claude-code-session-id", "x-session-affinity", "session-id"]
    assert [one["turns"] for one in settings_of(seen)] == [{"session_headers": headers}] * 3
    maps = [one.inputs["data"] for one in seen.all("kubernetes:core/v1:ConfigMap")]
    pickers = [one["default-plugins.yaml"] for one in maps if "default-plugins.yaml" in one]
    assert pickers
    assert all("orderingPolicyRef: slo-deadline-ordering-policy" in one for one in pickers)


def test_counters_that_are_local_need_no_store_and_no_api_for_one(deployed) -> None:
    platform = platform_with("staging", LOCAL)
    seen = deployed(platform)
    assert not seen.all("gcp:memorystore/instance:Instance")
    assert [one["region"] for one in settings_of(seen) if "store" not in one] == list(
        platform.regions
    )
    assert "memorystore.googleapis.com" not in resolve(platform).project.services
    assert (
        "memorystore.googleapis.com"
        in resolve(platform_with("staging", {"teams": TEAMS})).project.services
    )


def test_an_endpoint_that_everybody_may_use_has_no_gate(deployed) -> None:
    seen = deployed(platform_with("staging", {"anonymous": "reachable from the office alone"}))
    assert not settings_of(seen)
    assert not seen.all("gcp:secretmanager/secret:Secret")


def test_engines_report_the_usage_of_every_stream_where_somebody_counts_it(deployed) -> None:
    def flags(clients: dict[str, Any]) -> set[bool]:
        pods = deployed(platform_with("staging", clients)).all("kubernetes:apps/v1:Deployment")
        engines = [
            json.dumps(pod.inputs)
            for pod in pods
            if pod.inputs["metadata"]["labels"]["app.kubernetes.io/component"] == "model-server"
        ]
        return {"--enable-force-include-usage" in engine for engine in engines}

    assert flags(LOCAL) == {True}
    assert flags({"anonymous": "reachable from the office alone"}) == {False}


@pytest.mark.parametrize(
    ("base", "nodes"), [("prod", "standard-small"), ("dev", "shared-core-nano")]
)
def test_counters_are_in_the_cost_by_the_type_of_their_nodes(base: str, nodes: str) -> None:
    cost = stack_cost(resolve(platform_with(base, {"teams": TEAMS})))
    assert any(part.what == f"Memorystore for Valkey, {nodes}" for part in cost.parts)


def test_a_region_that_keeps_answers_has_a_store_for_them_and_its_gate_asks_its_own_embeddings(
    deployed,
) -> None:
    seen = deployed(with_teams())
    stores = seen.all("gcp:memorystore/instance:Instance")
    assert sorted({store.inputs["instanceId"] for store in stores}) == [
        "acme-prod-answers",
        "acme-prod-counters",
    ]
    assert len(stores) == 6
    policies = seen.all("gcp:networkconnectivity/serviceConnectionPolicy:ServiceConnectionPolicy")
    assert len(policies) == 3, "one of a network and region, which both stores use"
    for one in settings_of(seen):
        assert one["cache"]["embeddings"] == {
            "model": "qwen3-embedding-0.6b",
            "url": "http://qwen3-embedding-0-6b.models.svc:8000",
        }
        assert "sql" in one["cache"]["models"]
        assert "qwen3-embedding-0.6b" not in one["cache"]["models"]


def test_answers_are_kept_without_counters_too(deployed) -> None:
    teams = {"assistant": {"cached_answers": True}}
    platform = platform_with("dev", {"cache": CACHE, "counters": "local", "teams": teams})
    seen = deployed(platform)
    (store,) = seen.all("gcp:memorystore/instance:Instance")
    assert store.inputs["instanceId"] == "acme-dev-answers"
    assert seen.one("gcp:networkconnectivity/serviceConnectionPolicy:ServiceConnectionPolicy")
    assert "memorystore.googleapis.com" in resolve(platform).project.services


def test_engines_let_a_gate_in_that_asks_for_embeddings_and_no_other(deployed) -> None:
    def allowed(platform: Any) -> bool:
        seen = deployed(platform)
        (spec, *_) = [
            one.inputs["spec"]
            for one in seen.all("kubernetes:networking.k8s.io/v1:NetworkPolicy")
            if one.inputs["metadata"]["name"] == "engines"
        ]
        peers = spec["ingress"][0]["from"]
        return any("client-gate" in json.dumps(peer) for peer in peers)

    assert allowed(with_teams())
    assert not allowed(platform_with("staging", LOCAL))
