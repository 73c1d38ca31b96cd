import json
import re
from pathlib import Path

import pulumi
import pytest

from gke_inference.catalogue.engines import engine
from gke_inference.observability.monitoring import Monitoring, MonitoringArgs
from tests.contract.components_k8s import crds
from twin.host.paths import REPOSITORY

SCRAPE = "kubernetes:monitoring.googleapis.com/v1:PodMonitoring"
RULES = "kubernetes:monitoring.googleapis.com/v1:Rules"
# Name and type of every metric of vLLM 0.32, as a live server exported them.
EXPORTED = dict(
    line.split() for line in (Path(__file__).parent / "engine-metrics.txt").read_text().splitlines()
)


def args() -> MonitoringArgs:
    return {
        "deployments": ["llama-8b-tpu", "llama-8b-gpu"],
        "filled_deployment": "llama-8b-tpu",
        "model": "llama-8b",
        "namespace": "serving",
        "selector": {"gke-inference/model": "llama-8b"},
    }


def build(recorder, arguments):
    recorder.run(lambda: Monitoring("monitoring", arguments).model)
    return recorder


def test_series_say_the_role_of_their_replica_where_there_are_two(recorder):
    build(recorder, args() | {"role_label": "llm-d.ai/role"})
    crds.check(recorder.one(SCRAPE).inputs)
    wanted = recorder.one(SCRAPE).inputs["spec"]["targetLabels"]
    assert wanted["fromPod"] == [{"from": "llm-d.ai/role", "to": "role"}]


def test_series_have_no_role_where_every_replica_does_the_same(recorder):
    build(recorder, args())
    assert "fromPod" not in recorder.one(SCRAPE).inputs["spec"]["targetLabels"]


def rules_of(recorder, arguments):
    groups = build(recorder, arguments).one(RULES).inputs["spec"]["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_both_objects_are_what_their_crds_declare(recorder):
    build(recorder, args())
    crds.check(recorder.one(SCRAPE).inputs)
    crds.check(recorder.one(RULES).inputs)


def test_replicas_without_a_node_are_recorded_for_the_other_deployment(recorder):
    recorded = [rule for rule in rules_of(recorder, args()) if "record" in rule]
    assert recorded == [
        {
            "expr": 'sum(kube_pod_status_unschedulable{namespace="serving",'
            'pod=~"llama-8b-tpu-.*"}) or vector(0)',
            "labels": {"model": "llama-8b"},
            "record": "gke_inference:unplaced_replicas",
        }
    ]


def test_nothing_is_recorded_where_nothing_is_filled_in(recorder):
    alone = args()
    del alone["filled_deployment"]
    assert build(recorder, alone).all(RULES) == []


def test_only_metrics_somebody_uses_are_stored(recorder):
    (endpoint,) = build(recorder, args()).one(SCRAPE).inputs["spec"]["endpoints"]
    (rule,) = endpoint["metricRelabeling"]
    assert rule["action"] == "keep"
    assert re.fullmatch(rule["regex"], "vllm:num_requests_waiting")
    assert re.fullmatch(rule["regex"], "vllm:time_to_first_token_seconds_bucket")
    assert not re.fullmatch(rule["regex"], "vllm:request_params_n_bucket")
    assert (endpoint["interval"], endpoint["port"]) == ("15s", 8000)


def test_metrics_of_kv_cache_tiers_are_stored_where_there_are_tiers(recorder):
    (endpoint,) = (
        build(recorder, args() | {"has_kv_tiers": True}).one(SCRAPE).inputs["spec"]["endpoints"]
    )
    (rule,) = endpoint["metricRelabeling"]
    names = {
        "vllm:external_prefix_cache_hits_total",
        "vllm:external_prefix_cache_queries_total",
        "vllm:kv_offload_load_bytes_total",
        "vllm:kv_offload_load_time_total",
        "vllm:kv_offload_store_bytes_total",
        "vllm:prompt_tokens_cached_by_source_total",
    }
    assert {name for name in names if re.fullmatch(rule["regex"], name)} == names
    assert not re.search("kv_offload", "|".join(engine("vllm").metrics.stored()))


@pytest.mark.parametrize("name", engine("vllm").metrics.stored())
def test_the_engine_exports_what_is_scraped(name):
    base = name.removesuffix("_(bucket|count|sum)")
    assert base in EXPORTED
    assert (EXPORTED[base] == "histogram") == (base != name)


def types(name: str) -> dict[str, str]:
    """Return the type of every metric of an engine by its name."""
    if name == "vllm":
        return EXPORTED
    text = (REPOSITORY / f"simulator/dialects/data/{name}.json").read_text()
    return {metric: each["type"] for metric, each in json.loads(text)["metrics"].items()}


@pytest.mark.parametrize("name", ["sglang", "tgi", "triton", "vllm"])
def test_a_histogram_is_stored_as_a_whole_or_not_at_all(name):
    """Managed Prometheus drops one without its sum, count or last bucket."""
    patterns = engine(name).metrics.stored(has_tiers=True)

    def stored(metric: str) -> int:
        parts = (f"{metric}_{part}" for part in ("bucket", "count", "sum"))
        return sum(any(re.fullmatch(each, part) for each in patterns) for part in parts)

    histograms = {metric for metric, kind in types(name).items() if kind == "histogram"}
    assert {metric for metric in histograms if stored(metric) not in (0, 3)} == set()
    assert any(stored(metric) == 3 for metric in histograms) or not histograms


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"deployments": []}, "deployments.*must have at least 1 entry, got 0"),
        ({"filled_deployment": "other"}, "filledDeployment.*got 'other'"),
        ({"interval_seconds": 4}, "intervalSeconds.*5 to 60, got 4"),
        ({"selector": {}}, "selector.*must have at least 1 entry, got 0"),
    ],
)
def test_monitoring_that_could_not_work_is_refused(recorder, change, message):
    with pytest.raises(pulumi.InputPropertyError, match=message):
        build(recorder, {**args(), **change})
