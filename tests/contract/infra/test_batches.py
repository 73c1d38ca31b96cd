"""Batches of a stack: what a region builds for them, and what stays as it was without them."""

import json
from typing import Any

import pytest
import yaml

from infra.estimate.stack_cost import stack_cost
from infra.plan import resolve
from infra.plan.batches import resolve_batches
from infra.plan.gke_version import needed
from infra.reading.load import parse
from infra.rules.batches import check_batches
from infra.stack import Canary
from tests.contract.infra.broken_stacks import edited
from twin.host.paths import REPOSITORY


def platform_with(settings: Any, *more: dict[str, Any]) -> Any:
    rapid = {"at": ["regions", "us-central1", "release_channel"], "value": "rapid"}
    edits = [rapid, {"at": ["batches"], "value": settings}, *more]
    return parse(json.dumps(edited("dev", edits)))


def settings_of(recorder: Any) -> Any:
    found = recorder.object("kubernetes:core/v1:ConfigMap", "batch")
    return json.loads(found["data"]["settings.json"])


def test_all_models_that_answer_texts_answer_batches_with_the_priority_of_the_batch(
    deployed: Any,
) -> None:
    found = settings_of(deployed(platform_with({})))
    endpoints = ["/v1/chat/completions", "/v1/completions", "/v1/responses"]
    assert found["models"]["llama-3.1-8b"] == {
        "endpoints": endpoints,
        "objective": "llama-3-1-8b-batch",
    }
    assert found["models"]["qwen3-embedding-0.6b"] == {"endpoints": ["/v1/embeddings"]}
    assert "http://llama-3-1-8b-picker.models.svc:9090/metrics" in found["metrics_of_pickers"]
    assert "teams" not in found
    assert found["endpoint"].startswith("http")


@pytest.mark.parametrize(
    "changes",
    [
        {"engine": "tgi"},
        {"canary": Canary(version="next", weights="llama-3.1-8b", engine="sglang")},
        {"disaggregated": object()},
    ],
    ids=["engine", "canary", "roles"],
)
def test_responses_are_for_models_whose_replicas_all_answer_them(changes: Any) -> None:
    platform = platform_with({})
    name = "llama-3.1-8b"
    model = platform.models[name].model_copy(update=changes)
    found = resolve_batches(
        platform.model_copy(update={"models": {**platform.models, name: model}})
    )
    assert found is not None
    endpoints = {each.name: each.endpoints for each in found.models}[name]
    assert endpoints == ("/v1/chat/completions", "/v1/completions")


def test_a_bucket_is_made_whose_objects_go_by_themselves(deployed: Any) -> None:
    platform = platform_with({"retention_days": 7})
    seen = deployed(platform)
    plan = resolve_batches(platform)
    assert plan is not None
    (bucket,) = [
        each.inputs
        for each in seen.all("gcp:storage/bucket:Bucket")
        if each.inputs["name"] == plan.bucket
    ]
    assert {"action": {"type": "Delete"}, "condition": {"age": 7}} in bucket["lifecycleRules"]
    assert bucket["softDeletePolicy"] == {"retentionDurationSeconds": 0}
    grants = seen.all("gcp:storage/bucketIAMMember:BucketIAMMember")
    (grant,) = [each.inputs for each in grants if each.inputs["bucket"] == plan.bucket]
    assert grant["member"].endswith("/subject/ns/models/sa/batch")
    assert grant["role"] == "roles/storage.objectUser"


def test_a_bucket_that_exists_is_taken(deployed: Any) -> None:
    seen = deployed(platform_with({"bucket": "acme-batches"}))
    names = [each.inputs["name"] for each in seen.all("gcp:storage/bucket:Bucket")]
    assert not [name for name in names if "batches" in name]
    assert settings_of(seen)["bucket"] == "acme-batches"


def test_the_paths_of_batches_pass_by_the_body_router(deployed: Any) -> None:
    seen = deployed(platform_with({}))
    route = seen.object("kubernetes:gateway.networking.k8s.io/v1:HTTPRoute", "batch")
    (rule,) = route["spec"]["rules"]
    assert [each["path"]["value"] for each in rule["matches"]] == ["/v1/batches", "/v1/files"]
    (extension,) = [
        each.inputs["spec"]["extensionChains"]
        for each in seen.all("kubernetes:networking.gke.io/v1:GCPRoutingExtension")
    ]
    ((condition,),) = [chain["matchCondition"]["celExpressions"] for chain in extension]
    assert condition == {
        "celMatcher": "!(request.path == '/v1/batches' || request.path.startsWith('/v1/batches/')"
        " || request.path == '/v1/files' || request.path.startsWith('/v1/files/'))"
    }


def test_teams_bring_their_models_and_workers_a_key(deployed: Any) -> None:
    teams: Any = {"red": {"models": ["llama-3.1-8b"]}, "blue": {"acts_for_teams": True}}
    clients = {"at": ["clients"], "value": {"teams": teams, "counters": "local"}}
    seen = deployed(platform_with({"key_secret": "batch-key"}, clients))
    found = settings_of(seen)
    assert found["teams"] == {"red": ["llama-3.1-8b"], "blue": None}
    assert found["key_file"] == "/etc/batch-key/key"
    gate = json.loads(
        seen.object("kubernetes:core/v1:ConfigMap", "client-gate")["data"]["callout.yaml"]
    )
    assert gate["batches"] is True
    acting = [name for name, team in gate["teams"].items() if team.get("acts_for_teams")]
    assert acting == ["blue"]
    (extension,) = seen.all("kubernetes:networking.gke.io/v1:GCPTrafficExtension")
    chains = extension.inputs["spec"]["extensionChains"]
    assert [chain["name"] for chain in chains] == ["files", "clients"]


def test_the_files_of_a_team_have_a_limit(deployed: Any) -> None:
    found = settings_of(deployed(platform_with({"max_gib_per_team": 7})))
    assert found["max_stored_bytes"] == 7 * 2**30


def test_workers_that_scale_to_none_need_the_gke_that_does() -> None:
    (idle, *_) = resolve(platform_with({"workers": {"min": 0}})).regions.values()
    assert needed(idle)[0] == "1.37"
    (other, *_) = resolve(platform_with({})).regions.values()
    assert needed(other)[0] != "1.37"


def test_a_stack_without_batches_has_nothing_of_them(deployed: Any) -> None:
    platform = parse(json.dumps(edited("dev", [])))
    seen = deployed(platform)
    names = [each.inputs["metadata"]["name"] for each in seen.all("kubernetes:apps/v1:Deployment")]
    assert not [name for name in names if name.startswith("batch")]
    (extension,) = seen.all("kubernetes:networking.gke.io/v1:GCPRoutingExtension")
    assert "matchCondition" not in extension.inputs["spec"]["extensionChains"][0]
    assert "batch" not in resolve(platform).images.needed
    assert "batch" in resolve(platform_with({})).images.needed


def test_the_bucket_is_in_the_cost() -> None:
    parts = stack_cost(resolve(platform_with({}))).parts
    assert [part.quantity for part in parts if "of batches" in part.what] == ["1 buckets"]


def test_an_image_model_answers_batches_of_both_of_its_routes() -> None:
    file = REPOSITORY / "docs/examples/images/Pulumi.images.yaml"
    stack = yaml.load(file.read_text(), yaml.CSafeLoader)["config"]["gke-inference:platform"]
    stack["regions"]["us-central1"]["release_channel"] = "rapid"
    batches = {"models": ["flux-schnell"]}
    platform = parse(json.dumps({**stack, "batches": batches}))
    assert list(check_batches(platform)) == []
    plan = resolve_batches(platform)
    assert plan is not None
    paths = ("/v1/images/generations", "/v1/images/edits")
    assert {each.name: each.endpoints for each in plan.models} == {
        "flux-schnell": paths,
        "comic": paths,
    }
