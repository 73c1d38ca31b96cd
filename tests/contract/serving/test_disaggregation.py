"""Prefill and decode replicas of one model."""

import json
from typing import Any

import pulumi
import pytest

from gke_inference.serving.launcher.spec import read
from gke_inference.serving.model_server import ModelServer

CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
BUDGET = "kubernetes:policy/v1:PodDisruptionBudget"
H200: Any = {
    "accelerator": "nvidia-h200-141gb",
    "count": 8,
    "network": "rdma",
    "provisioning": "flex-start",
}
V6E_8: Any = {"accelerator": "tpu-v6e", "topology": "2x4", "provisioning": "on-demand"}
L4: Any = {"accelerator": "nvidia-l4", "count": 1, "provisioning": "on-demand"}


@pytest.fixture
def halved(args) -> dict[str, Any]:
    """The model on H200, without what only TPU and adapters need."""
    kept = {key: value for key, value in args.items() if key not in ("cache_bucket", "adapters")}
    return {**kept, "rungs": [H200]}


def built(recorder, args) -> tuple[dict[str, Any], ModelServer]:
    made: list[ModelServer] = []
    recorder.run(lambda: made.append(ModelServer("llama", args)))
    return recorder.one(DEPLOYMENT).inputs, made[0]


def engine_of(deployment: dict[str, Any]) -> dict[str, Any]:
    return deployment["spec"]["template"]["spec"]["containers"][0]


def flag(container: dict[str, Any], name: str) -> str:
    return next(arg for arg in container["args"] if arg.startswith(name)).partition("=")[2]


def test_the_roles_are_told_apart_by_llmds_label_and_share_the_pools(recorder, halved):
    decode, server = built(recorder, {**halved, "role": "decode"})
    labels = decode["spec"]["template"]["metadata"]["labels"]
    assert decode["metadata"]["name"] == "llama-8b-decode"
    assert labels["llm-d.ai/role"] == "decode"
    assert decode["spec"]["selector"]["matchLabels"]["llm-d.ai/role"] == "decode"
    assert server.labels == {"gke-inference/model": "llama-8b"}
    assert server.port == 8000


def test_a_decoding_engine_stands_behind_a_native_sidecar_on_the_pools_port(recorder, halved):
    decode, _ = built(recorder, {**halved, "role": "decode"})
    spec = decode["spec"]["template"]["spec"]
    (sidecar,) = spec["initContainers"]
    assert sidecar["restartPolicy"] == "Always"
    assert sidecar["image"].startswith("ghcr.io/llm-d/llm-d-routing-sidecar:v")
    assert sidecar["args"][:2] == ["--port=8000", "--vllm-port=8200"]
    assert "--secure-proxy=false" in sidecar["args"]
    engine = engine_of(decode)
    assert flag(engine, "--port") == "8200"
    assert engine["ports"][0]["containerPort"] == 8200
    told = recorder.one(CONFIG_MAP).inputs["data"]
    hook = engine["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert hook + read(told["spec.json"]).settle_seconds == 45


def test_a_prefilling_engine_has_the_pools_port_itself(recorder, halved):
    prefill, _ = built(recorder, {**halved, "role": "prefill"})
    assert "initContainers" not in prefill["spec"]["template"]["spec"]
    assert flag(engine_of(prefill), "--port") == "8000"
    assert prefill["metadata"]["name"] == "llama-8b-prefill"


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_both_roles_can_send_and_receive_and_compute_again_what_is_lost(recorder, halved, role):
    deployment, _ = built(recorder, {**halved, "role": role})
    engine = engine_of(deployment)
    assert json.loads(flag(engine, "--kv-transfer-config")) == {
        "kv_connector": "NixlConnector",
        "kv_load_failure_policy": "recompute",
        "kv_role": "kv_both",
    }
    address = next(e for e in engine["env"] if e["name"] == "VLLM_NIXL_SIDE_CHANNEL_HOST")
    assert address["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"


def test_a_decode_replica_waits_longer_before_it_looks_whether_it_is_idle(recorder, halved):
    """A request whose prompt is computed elsewhere is in nobody's queue here."""
    grace = {}
    for role in ("prefill", "decode"):
        recorder.registrations.clear()
        deployment, _ = built(recorder, {**halved, "role": role})
        grace[role] = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace["decode"] - grace["prefill"] == 30


def test_each_role_has_a_disruption_budget_of_its_own(recorder, halved):
    built(recorder, {**halved, "role": "prefill"})
    budget = recorder.one(BUDGET).inputs
    assert budget["metadata"]["name"] == "llama-8b-prefill"
    assert budget["spec"]["selector"]["matchLabels"]["llm-d.ai/role"] == "prefill"


def test_tpus_move_their_cache_with_their_own_connector(recorder, args):
    kept = {key: value for key, value in args.items() if key != "adapters"}
    deployment, _ = built(recorder, {**kept, "rungs": [V6E_8], "role": "decode"})
    config = json.loads(flag(engine_of(deployment), "--kv-transfer-config"))
    assert config["kv_connector"] == "TPUConnector"
    assert config["kv_connector_module_path"] == "tpu_inference.distributed.tpu_connector"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rungs": [L4]}, "no network that KV cache can be moved over"),
        ({"rungs": [{**V6E_8, "topology": "2x2"}], "cache_bucket": "c"}, "tried as 2x4 only"),
        ({"role": "both"}, "must be one of decode, prefill"),
        ({"task": "embed"}, "must not be set when task is embed"),
        ({"rungs": [V6E_8, H200], "cache_bucket": "c"}, "must not be set when form is 'paired'"),
    ],
)
def test_what_cannot_be_taken_apart_is_refused(recorder, halved, change, message):
    with pytest.raises(pulumi.InputPropertyError, match=message):
        built(recorder, {**halved, "role": "decode", **change})
    assert recorder.all(DEPLOYMENT) == []
