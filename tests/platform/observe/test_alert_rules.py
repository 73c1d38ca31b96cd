"""Every alert, evaluated by Prometheus itself: it fires when it should, and only then."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from gke_inference.observability.alert_source import Alert, alerts, rule_group
from gke_inference.observability.dashboard_source import dashboards
from gke_inference.observability.promql import Dialect
from tests.contract.components_gcp.observed import MIXED, SCOPE
from tests.platform.observe.cases import CASES, IDLE
from twin.toolchain import tool

pytestmark = pytest.mark.needs_tools

LABELS = 'namespace="models",cluster="acme-prod-us-central1"'
TGI_TOKEN = "tgi_request_mean_time_per_token_duration"
ALERTS = {alert.name: alert for alert in alerts(MIXED, Dialect.MANAGED)}


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(tool("promtool")), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def firing(folder: Path, alert: Alert, series: dict[str, str], at: str) -> bool:
    """Return whether an alert fires; promtool is told that it does not, and contradicts."""
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": [rule_group((alert,))]}))
    test = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": name.replace("$l", LABELS), "values": values}
                    for name, values in series.items()
                ],
                "alert_rule_test": [{"eval_time": at, "alertname": alert.name, "exp_alerts": []}],
            }
        ],
    }
    (folder / "test.yaml").write_text(yaml.safe_dump(test))
    answer = run(folder, "test", "rules", "test.yaml")
    said = answer.stdout + answer.stderr
    assert answer.returncode == 0 or f"alertname: {alert.name}" in said, said
    return answer.returncode != 0


def test_every_alert_has_its_cases_and_no_other_has():
    assert set(CASES) == set(ALERTS)


@pytest.mark.parametrize("name", sorted(ALERTS))
def test_an_alert_fires_when_it_should_and_only_then(tmp_path, name):
    case = CASES[name]
    assert firing(tmp_path, ALERTS[name], case["fires"], case["at"]), "it does not fire"
    assert not firing(tmp_path, ALERTS[name], case["silent"], case["at"]), "it is not silent"


@pytest.mark.parametrize("name", sorted(name for name, case in CASES.items() if "few" in case))
def test_a_ratio_of_few_requests_fires_no_alert(tmp_path, name):
    case = CASES[name]
    many = {
        series: re.sub(r" (\d)x", r" \g<1>0x", values) for series, values in case["few"].items()
    }
    assert firing(tmp_path, ALERTS[name], many, case["at"]), "it does not fire for many"
    assert not firing(tmp_path, ALERTS[name], case["few"], case["at"]), "it is not silent"


@pytest.mark.parametrize(
    ("name", "series"),
    [
        ("QueueTooLong", {'sglang:num_queue_reqs{job="qwen",pod="a",$l}': "30x30"}),
        ("QueueTooLong", {'diffusion_images_waiting{job="flux",pod="a",$l}': "30x30"}),
        ("QueueTooLong", {'tgi_queue_size{job="mistral",pod="a",$l}': "30x30"}),
        (
            "QueueTooLong",
            {'nv_trt_llm_request_metrics{job="gemma",request_type="waiting",pod="a",$l}': "30x30"},
        ),
        ("KvCacheFull", {'sglang:token_usage{job="qwen",pod="a",$l}': "1x30"}),
        (
            "KvCacheFull",
            {
                'nv_trt_llm_kv_cache_block_metrics{job="gemma",pod="a",'
                'kv_cache_block_type="fraction",$l}': "1x30"
            },
        ),
        (
            "EngineRequestsFailing",
            {
                'nv_inference_request_success{job="gemma",model="tensorrt_llm",$l}': "0+94x30",
                'nv_inference_request_failure{job="gemma",model="tensorrt_llm",'
                'reason="BACKEND",$l}': "0+6x30",
            },
        ),
        (
            "TPOTFastBurn",
            {
                f'{TGI_TOKEN}_bucket{{job="mistral",le="{least}",$l}}': grows
                for least, grows in {
                    "0.04": "0+60x800",
                    "0.1": "0+100x800",
                    "+Inf": "0+100x800",
                }.items()
            },
        ),
        (
            "TTFTFastBurn",
            {
                f'sglang:time_to_first_token_seconds_bucket{{job="qwen",le="{least}",$l}}': grows
                for least, grows in {
                    "0.5": "0+60x800",
                    "1": "0+100x800",
                    "+Inf": "0+100x800",
                }.items()
            },
        ),
    ],
)
def test_an_alert_fires_for_models_of_other_engines_too(tmp_path, name, series):
    assert firing(tmp_path, ALERTS[name], series, CASES[name]["at"])


def test_requests_that_were_canceled_in_triton_are_no_failures(tmp_path):
    alert = ALERTS["EngineRequestsFailing"]
    series = {
        'nv_inference_request_success{job="gemma",model="tensorrt_llm",$l}': "0+1x30",
        'nv_inference_request_failure{job="gemma",model="tensorrt_llm",reason="CANCELED",$l}': (
            "0+99x30"
        ),
    }
    assert not firing(tmp_path, alert, series, CASES[alert.name]["at"])


@pytest.mark.parametrize(
    "series",
    [
        'vllm:num_requests_running{job="llama",pod="qwen-gpu-1",$l}',
        'sglang:num_running_reqs{job="qwen",pod="qwen-gpu-1",$l}',
        'tgi_batch_current_size{job="mistral",pod="qwen-gpu-1",$l}',
        'nv_trt_llm_request_metrics{job="gemma",request_type="active",pod="qwen-gpu-1",$l}',
    ],
)
def test_a_replica_that_answers_does_not_load_too_long_in_whatever_engine(tmp_path, series):
    runs = 'kube_pod_status_phase{phase="Running",pod="qwen-gpu-1",$l}'
    alert = ALERTS["ReplicaStartupSlow"]
    at = CASES[alert.name]["at"]
    assert not firing(tmp_path, alert, {runs: "1x60", series: "0x60"}, at)
    assert firing(tmp_path, alert, {runs: "1x60"}, at)


@pytest.mark.parametrize("name", sorted(name for name in ALERTS if ALERTS[name].lasting != "0m"))
def test_an_alert_waits_before_it_fires(tmp_path, name):
    case = CASES[name]
    assert not firing(tmp_path, ALERTS[name], case["fires"], "0m")


def test_a_platform_that_has_been_idle_for_longer_than_the_ranges_fires_no_alert(tmp_path):
    at = "420m"  # six hours, the longest range, and one more
    own = replace(SCOPE, cost_limit_usd_per_hour=1000)
    found = [each.name for each in alerts(own, Dialect.MANAGED) if firing(tmp_path, each, IDLE, at)]
    assert found == []
    tokens = next(each for each in alerts(own, Dialect.MANAGED) if each.name == "TPOTFastBurn")
    assert firing(tmp_path, tokens, IDLE, "6m"), "the burst itself is noticed"


def test_prometheus_reads_every_expression_of_every_dashboard(tmp_path):
    expressions = [
        query.expr for page in dashboards(MIXED) for panel in page.panels for query in panel.queries
    ]
    rules = [
        {"record": f"gke_inference:panel_{at}", "expr": expression}
        for at, expression in enumerate(expressions)
    ]
    groups = {"groups": [{"name": "panels", "rules": rules}, rule_group(tuple(ALERTS.values()))]}
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(groups))
    answer = run(tmp_path, "check", "rules", "rules.yaml")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert f"{len(rules) + len(ALERTS)} rules found" in answer.stdout
