"""A canary in another engine than its model's, and adapters as each engine names them."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.plan import resolve
from infra.reading.load import parse
from infra.stack import Engine, EngineSettings, Platform
from tests.contract.infra.cloud import Deployed
from tests.contract.recorder import Records

EXAMPLE = Path("docs/examples/engines/Pulumi.engines.yaml")
MODEL, SECOND, OTHER = "llama-3.1-8b", "llama-3.1-8b-sglang", "qwen3-4b"


@pytest.fixture
def platform() -> Platform:
    whole = yaml.safe_load(EXAMPLE.read_text())
    return parse(json.dumps(whole["config"]["gke-inference:platform"]))


@pytest.fixture
def recorder(platform: Platform, deployed: Deployed) -> Records:
    return deployed(platform)


def named(recorder: Records, kind: str, name: str) -> Any:
    (found,) = [
        seen.inputs for seen in recorder.all(kind) if seen.inputs["metadata"]["name"] == name
    ]
    return found


def test_the_second_version_has_the_defaults_of_its_own_engine(platform: Platform) -> None:
    ((first,), (second,)) = (resolve(platform).models[name] for name in (MODEL, SECOND))
    assert (first.settings.engine, second.settings.engine) == (Engine.VLLM, Engine.SGLANG)
    assert first.settings.settings == EngineSettings()
    assert second.settings.settings.engine_args == {"chunked-prefill-size": 4096}
    assert second.settings.weights == first.settings.weights


def test_each_version_has_a_picker_that_reads_its_engines_metrics(recorder: Records) -> None:
    found: dict[str, tuple[str, str]] = {}
    for name in ("llama-3-1-8b-picker", "llama-3-1-8b-sglang-picker"):
        data = named(recorder, "kubernetes:core/v1:ConfigMap", name)["data"]
        plugins = yaml.safe_load(data["default-plugins.yaml"])["plugins"]
        read = next(each for each in plugins if each["type"] == "core-metrics-extractor")
        (names,) = read["parameters"]["engineConfigs"]
        found[name] = (names["queuedRequestsSpec"], names["kvUsageSpec"])
    assert found == {
        "llama-3-1-8b-picker": ("vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"),
        "llama-3-1-8b-sglang-picker": ("sglang:num_queue_reqs", "sglang:token_usage"),
    }


def test_each_version_starts_its_own_engine_on_the_same_weights(recorder: Records) -> None:
    first, second = (
        named(recorder, "kubernetes:apps/v1:Deployment", name)["spec"]["template"]["spec"]
        for name in ("llama-3-1-8b-gpu", "llama-3-1-8b-sglang-gpu")
    )
    (first,), (second,) = first["containers"], second["containers"]
    assert first["command"][-2:] == ["vllm", "serve"]
    assert second["command"][-3:] == ["python3", "-m", "sglang.launch_server"]
    assert "--served-model-name=llama-3.1-8b" in first["args"]
    assert "--served-model-name=llama-3.1-8b" in second["args"]
    assert "--chunked-prefill-size=4096" in second["args"]


def test_clients_name_an_adapter_of_sglang_behind_its_model(recorder: Records) -> None:
    route = named(recorder, "kubernetes:gateway.networking.k8s.io/v1:HTTPRoute", OTHER)
    (rule,) = route["spec"]["rules"]
    names = [match["headers"][0]["value"] for match in rule["matches"]]
    assert names == [OTHER, f"{OTHER}:sql"]
    maps = recorder.all("kubernetes:core/v1:ConfigMap")
    (listed,) = [m.inputs["data"]["models.json"] for m in maps if "models.json" in m.inputs["data"]]
    assert [entry["id"] for entry in json.loads(listed)["data"]] == [
        MODEL,
        OTHER,
        f"{OTHER}:sql",
    ]
