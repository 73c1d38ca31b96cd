"""The series that autoscalers follow, computed by Prometheus itself."""

import subprocess
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from gke_inference.catalogue.engine_metrics import DEMANDED_REPLICAS, UNPLACED_REPLICAS
from gke_inference.catalogue.time_zones import offsets
from gke_inference.intent.schedule import ReplicaSchedule
from gke_inference.observability.demanded import Demand
from gke_inference.observability.monitoring import recorded_series, recording_rules
from gke_inference.observability.scheduled import scheduled_replicas
from twin.toolchain import tool

pytestmark = pytest.mark.needs_tools

PENDING = 'kube_pod_status_phase{phase="Pending",namespace="models",pod="llama-tpu-%s"}'
UNSCHEDULABLE = 'kube_pod_status_unschedulable{namespace="models",pod="llama-tpu-%s"}'


def is_recorded(
    folder: Path, series: dict[str, str], value: int, *, is_group: bool = False
) -> bool:
    rules = recording_rules("llama", "models", "llama-tpu", is_group=is_group)
    return has_value(folder, rules, UNPLACED_REPLICAS, series, value)


def has_value(
    folder: Path, rules: list[Any], record: str, series: dict[str, str], value: int
) -> bool:
    """Return whether a recorded series has a value after 10 minutes."""
    groups = {"groups": [{"name": "recorded", "rules": rules}]}
    (folder / "rules.yaml").write_text(yaml.safe_dump(groups))
    sample = {"labels": f'{record}{{model="llama"}}', "value": value}
    test = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "15s",
        "tests": [
            {
                "interval": "30s",
                "input_series": [
                    {"series": name, "values": values} for name, values in series.items()
                ],
                "promql_expr_test": [{"expr": record, "eval_time": "10m", "exp_samples": [sample]}],
            }
        ],
    }
    (folder / "test.yaml").write_text(yaml.safe_dump(test))
    command = [str(tool("promtool")), "test", "rules", "test.yaml"]
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert answer.returncode in (0, 1), answer.stderr
    return answer.returncode == 0


def test_a_pod_that_has_a_node_and_pulls_its_image_is_not_filled_in_for(tmp_path):
    assert is_recorded(tmp_path, {PENDING % "6c9d-x2k4p": "1x30"}, 0)


def test_a_pod_that_no_node_takes_is_filled_in_for(tmp_path):
    series = {PENDING % "6c9d-x2k4p": "1x30", UNSCHEDULABLE % "6c9d-x2k4p": "1x30"}
    assert is_recorded(tmp_path, series, 1)


def test_the_series_is_zero_and_not_away_where_nothing_waits_or_nobody_says(tmp_path):
    assert is_recorded(tmp_path, {}, 0)
    ended = {UNSCHEDULABLE % "6c9d-x2k4p": "1x4 stale"}
    assert is_recorded(tmp_path, ended, 0)


def test_of_a_group_only_the_leader_counts(tmp_path):
    pods = {UNSCHEDULABLE % name: "1x30" for name in ("0", "0-1", "0-2")}
    assert is_recorded(tmp_path, pods, 1, is_group=True)


WAKES = 'relay_wakes_total{namespace="models",pod="relay-llama-6c9d-x2k4p"}'
WAITING = 'relay_waiting_requests{namespace="models",pod="relay-llama-6c9d-x2k4p"}'
ANSWERED = 'vllm:request_success_total{namespace="models",pod="llama-gpu-6c9d-x2k4p"}'
RUNNING = 'vllm:num_requests_running{namespace="models",pod="llama-gpu-6c9d-x2k4p"}'


@pytest.mark.parametrize(
    ("series", "value"),
    [
        ({}, 0),
        ({WAKES: "0x30", WAITING: "0x30"}, 0),
        ({WAKES: "0x30", WAITING: "0x18 1x10"}, 1),  # in the minute before the end
        ({WAKES: "0x14 1x16"}, 1),
        ({WAKES: "0x4 1x26"}, 0),  # longer ago than the idle time
        ({WAKES: "0x30", ANSWERED: "3x14 4x16"}, 1),
        ({WAKES: "0x30", ANSWERED: "4x30", RUNNING: "0x30"}, 0),
        ({WAKES: "0x30", ANSWERED: "4x30", RUNNING: "1x30"}, 1),  # longer than the idle time
        ({WAKES.replace("llama", "other"): "0x14 1x16"}, 0),
        ({WAKES.replace("llama", "llama-3b"): "0x14 1x16"}, 0),
        ({RUNNING.replace("llama-gpu", "llama-gpu-3b"): "1x30"}, 0),
        ({WAKES.replace("6c9d-x2k4p", "6cx2k4p"): "0x14 1x16"}, 1),  # of a long name
    ],
)
def test_demand_is_recorded_while_requests_come_and_until_the_idle_time_ends(
    tmp_path, series: dict[str, str], value: int
):
    rule = recorded_series(
        {
            "demand": Demand(idle_seconds=300, relay_name="relay-llama"),
            "deployments": ["llama-gpu"],
            "model": "llama",
            "namespace": "models",
            "selector": {"app": "llama"},
        }
    )
    assert has_value(tmp_path, rule, DEMANDED_REPLICAS, series, value)


def least(schedule: ReplicaSchedule, at: int) -> int:
    return schedule.least_at(datetime.fromtimestamp(at, UTC))


def test_the_scheduled_minimum_is_that_of_the_clock_also_when_clocks_change(tmp_path):
    week = '{"days": ["SA"], "start": "22:00", "end": "06:00", "min": 3}'
    office = '{"days": ["MO", "FR"], "start": "08:15", "end": "20:00", "min": 6}'
    cases: list[dict[str, Any]] = []
    for zone in ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "Africa/Casablanca"):
        text = f'{{"time_zone": "{zone}", "windows": [{week}, {office}]}}'
        schedule = ReplicaSchedule.model_validate_json(text)
        moments = {at + late for at, _ in offsets(zone)[1:4] for late in (-1, 0, 1)}
        for day in ("2026-03-28", "2026-10-24", "2026-12-28", "2031-08-01", "2045-12-29"):
            begin = int(datetime.fromisoformat(f"{day}T00:00:00Z").timestamp())
            moments |= {begin + 3600 * hour for hour in range(2 * 24)}
            quarters = [begin + 900 * quarter for quarter in range(2 * 96)]
            for before, at in pairwise(quarters):
                if least(schedule, before) != least(schedule, at):
                    moments |= {at - 1, at}
        expression = scheduled_replicas(schedule)
        for at in sorted(moments):
            sample = {"labels": "{}", "value": least(schedule, at)}
            cases.append({"expr": expression, "eval_time": f"{at}s", "exp_samples": [sample]})
    assert {case["exp_samples"][0]["value"] for case in cases} == {0, 3, 6}
    series = [{"series": "up", "values": "1"}]
    one = {"interval": "36500d", "input_series": series, "promql_expr_test": cases}
    test = {"evaluation_interval": "36500d", "tests": [one]}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(test))
    command = [str(tool("promtool")), "test", "rules", "test.yaml"]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, (answer.stdout + answer.stderr)[:2000]
