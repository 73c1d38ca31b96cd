"""A canary in another engine than its model's, and adapters as each engine names them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gke_inference.catalogue.engines import engine, series
from infra.plan import resolve
from infra.reading.load import parse
from infra.stack import EngineSettings, Platform
from tests.contract.infra.cloud import Deployed
from tests.contract.recorder import Records

EXAMPLE = Path("docs/examples/engines/Pulumi.engines.yaml")
MODEL, SECOND, OTHER = "llama-3.1-8b", "llama-3.1-8b-sglang", "qwen3-4b"


@pytest.fixture
def platform() -> Platform:
    whole = yaml.load(EXAMPLE.read_text(), yaml.CSafeLoader)
    return parse(json.dumps(whole["config"]["gke-inference:platform"]))


@pytest.fixture
def recorder(platform: Platform, deployed: Deployed) -> Records:
    return deployed(platform)


def test_the_second_version_has_the_defaults_of_its_own_engine(platform: Platform) -> None:
    ((first,), (second,)) = (resolve(platform).models[name] for name in (MODEL, SECOND))
    assert (first.settings.engine, second.settings.engine) == ("vllm", "sglang")
    assert first.settings.settings == EngineSettings()
    assert second.settings.settings.engine_args == {"chunked-prefill-size": 4096}
    assert second.settings.weights == first.settings.weights


def test_each_version_starts_its_own_engine_on_the_same_weights(recorder: Records) -> None:
    first, second = (
        recorder.object("kubernetes:apps/v1:Deployment", name)["spec"]["template"]["spec"]
        for name in ("llama-3-1-8b-gpu", "llama-3-1-8b-sglang-gpu")
    )
    (first,), (second,) = first["containers"], second["containers"]
    assert first["command"][-2:] == ["vllm", "serve"]
    assert second["command"][-3:] == ["python3", "-m", "sglang.launch_server"]
    assert "--served-model-name=llama-3.1-8b" in first["args"]
    assert "--served-model-name=llama-3.1-8b" in second["args"]
    assert "--chunked-prefill-size=4096" in second["args"]


def test_clients_name_an_adapter_of_sglang_behind_its_model(recorder: Records) -> None:
    route = recorder.object("kubernetes:gateway.networking.k8s.io/v1:HTTPRoute", OTHER)
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


PAIRS = (("vllm", "tgi"), ("vllm", "triton"), ("tgi", "sglang"), ("triton", "vllm"))
"""Each engine as that of a canary. The stack of the example has vLLM and SGLang."""
PROGRAMS = {
    "sglang": "sglang.launch_server",
    "tgi": "text-generation-launcher",
    "triton": "/opt/tritonserver/python/openai/openai_frontend/main.py",
    "vllm": "serve",
}
"""Last word of each engine's command."""


@pytest.fixture(params=PAIRS, ids="-".join)
def pair(request: pytest.FixtureRequest, deployed: Deployed) -> tuple[tuple[str, str], Records]:
    """Two engines, and a stack whose model has them: the second one is its canary's."""
    first, second = request.param
    whole = yaml.load(EXAMPLE.read_text(), yaml.CSafeLoader)["config"]["gke-inference:platform"]
    model = whole["models"][MODEL]
    model["engine"] = first
    model["canary"] = {
        "version": "second",
        "weights": "llama-3.1-8b-second",
        "engine": second,
        "percent": 25,
    }
    return request.param, deployed(parse(json.dumps(whole)))


def of_pair(kind: str, pair: tuple[tuple[str, str], Records], suffix: str = "") -> list[Any]:
    """Return an object of the model, and that of its canary."""
    return [pair[1].object(kind, f"llama-3-1-8b{version}{suffix}") for version in ("", "-second")]


def test_each_engine_of_a_canary_is_started_checked_and_scraped_by_its_own_names(
    pair: tuple[tuple[str, str], Records],
) -> None:
    names, _ = pair
    pods = of_pair("kubernetes:apps/v1:Deployment", pair, "-gpu")
    scrapes = of_pair("kubernetes:monitoring.googleapis.com/v1:PodMonitoring", pair)
    checks = of_pair("kubernetes:networking.gke.io/v1:HealthCheckPolicy", pair)
    for name, pod, scrape, check in zip(names, pods, scrapes, checks, strict=True):
        facts = engine(name)
        (container,) = pod["spec"]["template"]["spec"]["containers"]
        assert container["command"][-1] == PROGRAMS[name]
        (endpoint,) = scrape["spec"]["endpoints"]
        (rule,) = endpoint["metricRelabeling"]
        assert re.fullmatch(rule["regex"], series(facts.metrics.queue)[0])
        http = check["spec"]["default"]["config"]["httpHealthCheck"]
        assert (http["requestPath"], http["port"]) == (facts.health_path, 8000)


def test_each_picker_and_autoscaler_of_a_canary_reads_its_own_engine(
    pair: tuple[tuple[str, str], Records],
) -> None:
    names, _ = pair
    for name, data in zip(
        names, of_pair("kubernetes:core/v1:ConfigMap", pair, "-picker"), strict=True
    ):
        metrics = engine(name).metrics
        plugins = yaml.load(data["data"]["default-plugins.yaml"], yaml.CSafeLoader)["plugins"]
        read = next(each for each in plugins if each["type"] == "core-metrics-extractor")
        (specs,) = read["parameters"]["engineConfigs"]
        assert specs["queuedRequestsSpec"] == metrics.queue
        assert (specs["kvUsageSpec"] or None) == metrics.kv_cache
    scalers = of_pair("kubernetes:autoscaling/v2:HorizontalPodAutoscaler", pair, "-gpu")
    for name, scaler in zip(names, scalers, strict=True):
        asked = [metric["pods"]["metric"]["name"] for metric in scaler["spec"]["metrics"]]
        queue = series(engine(name).metrics.queue)[0]
        assert any(queue in each for each in asked), asked


def test_a_share_and_a_header_reach_the_second_engine(
    pair: tuple[tuple[str, str], Records],
) -> None:
    _, recorder = pair
    kind = "kubernetes:gateway.networking.k8s.io/v1:HTTPRoute"
    (rule,) = recorder.object(kind, "llama-3-1-8b")["spec"]["rules"]
    shares = [(each["name"], each["weight"]) for each in rule["backendRefs"]]
    assert shares == [("llama-3-1-8b", 75), ("llama-3-1-8b-second", 25)]
