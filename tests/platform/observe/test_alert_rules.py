"""Every alert, evaluated by Prometheus itself: it fires when it should, and only then."""

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

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
OTHER_ENGINES = [
    ("QueueTooLong", {'sglang:num_queue_reqs{job="qwen",pod="a",$l}': "30x30"}),
    ("QueueTooLong", {'diffusion_images_waiting{job="flux",pod="a",$l}': "30x30"}),
    ("QueueTooLong", {'tgi_queue_size{job="mistral",pod="a",$l}': "30x30"}),
    (
        "QueueTooLong",
        {'nv_trt_llm_request_metrics{job="gemma",request_type="waiting",pod="a",$l}': "30x30"},
    ),
    ("QueueTooLong", {'nv_inference_pending_request_count{job="fraud",pod="a",$l}': "30x30"}),
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
]
BUSY = [
    'vllm:num_requests_running{job="llama",pod="qwen-gpu-1",$l}',
    'sglang:num_running_reqs{job="qwen",pod="qwen-gpu-1",$l}',
    'tgi_batch_current_size{job="mistral",pod="qwen-gpu-1",$l}',
    'nv_trt_llm_request_metrics{job="gemma",request_type="active",pod="qwen-gpu-1",$l}',
]
RUNS = 'kube_pod_status_phase{phase="Running",pod="qwen-gpu-1",$l}'


@dataclass(frozen=True)
class Question:
    """Whether alerts fire with some series at a time."""

    alerts: tuple[Alert, ...]
    series: dict[str, str]
    at: str


def questions() -> Iterator[tuple[str, Question]]:
    """Yield every question of this file by its name: to start promtool for each takes longer."""
    for name, alert in ALERTS.items():
        case = CASES[name]
        series = {word: case[word] for word in ("fires", "silent", "few") if word in case}
        if "few" in case:
            series["many"] = {
                key: re.sub(r" (\d)x", r" \g<1>0x", values) for key, values in case["few"].items()
            }
        for word, each in series.items():
            yield f"{name} {word}", Question((alert,), each, case["at"])
        yield f"{name} at once", Question((alert,), case["fires"], "0m")
    for at, (name, series) in enumerate(OTHER_ENGINES):
        yield f"{name} {at}", Question((ALERTS[name],), series, CASES[name]["at"])
    failing, slow = ALERTS["EngineRequestsFailing"], ALERTS["ReplicaStartupSlow"]
    canceled = {
        'nv_inference_request_success{job="gemma",model="tensorrt_llm",$l}': "0+1x30",
        'nv_inference_request_failure{job="gemma",model="tensorrt_llm",reason="CANCELED",$l}': (
            "0+99x30"
        ),
    }
    yield "canceled", Question((failing,), canceled, CASES[failing.name]["at"])
    for series in BUSY:
        yield series, Question((slow,), {RUNS: "1x60", series: "0x60"}, CASES[slow.name]["at"])
    yield "no engine", Question((slow,), {RUNS: "1x60"}, CASES[slow.name]["at"])
    own = tuple(alerts(replace(SCOPE, cost_limit_usd_per_hour=1000), Dialect.MANAGED))
    yield "idle", Question(own, IDLE, "420m")  # six hours, the longest range, and one more
    tokens = tuple(each for each in own if each.name == "TPOTFastBurn")
    yield "burst", Question(tokens, IDLE, "6m")


QUESTIONS = dict(questions())


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(tool("promtool")), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def write(folder: Path, name: str, question: Question) -> str:
    """Write a test of promtool, which expects that nothing fires; return its file's name."""
    rules = f"{name}.rules.yaml"
    (folder / rules).write_text(json.dumps({"groups": [rule_group(question.alerts)]}))
    test = {
        "rule_files": [rules],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": series.replace("$l", LABELS), "values": values}
                    for series, values in question.series.items()
                ],
                "alert_rule_test": [
                    {"eval_time": question.at, "alertname": each.name, "exp_alerts": []}
                    for each in question.alerts
                ],
            }
        ],
    }
    (folder / f"{name}.yaml").write_text(json.dumps(test))
    return f"{name}.yaml"


@pytest.fixture(scope="module")
def firing(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Answer every question of this file, by the alerts that fire."""
    folder = tmp_path_factory.mktemp("alerts")
    files = [write(folder, str(at), each) for at, each in enumerate(QUESTIONS.values())]
    answer = run(folder, "test", "rules", "--junit=answers.xml", *files)
    assert answer.returncode in (0, 1), answer.stderr
    found: dict[str, set[str]] = {}
    suites = ElementTree.parse(folder / "answers.xml").getroot()  # noqa: S314 - promtool's
    for name, file, suite in zip(QUESTIONS, files, suites, strict=True):
        assert (suite.get("name"), suite.get("errors")) == (file, "0"), name
        failures = [each.text or "" for each in suite.iter("failure")]
        fired = [re.match(r"\s*alertname: (\w+), time", text) for text in failures]
        assert all(fired), f"{name}: {failures}"
        found[name] = {each[1] for each in fired if each is not None}
    return found


def test_every_alert_has_its_cases_and_no_other_has():
    assert set(CASES) == set(ALERTS)


@pytest.mark.parametrize("name", sorted(ALERTS))
def test_an_alert_fires_when_it_should_and_only_then(firing, name):
    assert firing[f"{name} fires"], "it does not fire"
    assert not firing[f"{name} silent"], "it is not silent"


@pytest.mark.parametrize("name", sorted(name for name, case in CASES.items() if "few" in case))
def test_a_ratio_of_few_requests_fires_no_alert(firing, name):
    assert firing[f"{name} many"], "it does not fire for many"
    assert not firing[f"{name} few"], "it is not silent"


@pytest.mark.parametrize("question", [f"{name} {at}" for at, (name, _) in enumerate(OTHER_ENGINES)])
def test_an_alert_fires_for_models_of_other_engines_too(firing, question):
    assert firing[question]


def test_requests_that_were_canceled_in_triton_are_no_failures(firing):
    assert not firing["canceled"]


def test_a_replica_that_answers_does_not_load_too_long_in_whatever_engine(firing):
    assert [series for series in BUSY if firing[series]] == []
    assert firing["no engine"]


@pytest.mark.parametrize("name", sorted(name for name in ALERTS if ALERTS[name].lasting != "0m"))
def test_an_alert_waits_before_it_fires(firing, name):
    assert not firing[f"{name} at once"]


def test_a_platform_that_has_been_idle_for_longer_than_the_ranges_fires_no_alert(firing):
    assert firing["idle"] == set()
    assert firing["burst"], "the burst itself is noticed"


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
    assert answer.returncode == 0, answer.stdout
    assert f"{len(rules) + len(ALERTS)} rules found" in answer.stdout
