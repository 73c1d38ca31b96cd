"""The series that autoscalers follow, computed by Prometheus itself."""

import subprocess
from pathlib import Path

import pytest
import yaml

from gke_inference.catalogue.engine_metrics import UNPLACED_REPLICAS
from gke_inference.observability.monitoring import recording_rules
from twin.toolchain import tool

pytestmark = pytest.mark.needs_tools

PENDING = 'kube_pod_status_phase{phase="Pending",namespace="models",pod="llama-tpu-%s"}'
UNSCHEDULABLE = 'kube_pod_status_unschedulable{namespace="models",pod="llama-tpu-%s"}'


def is_recorded(
    folder: Path, series: dict[str, str], value: int, *, is_group: bool = False
) -> bool:
    rules = recording_rules("llama", "models", "llama-tpu", is_group=is_group)
    groups = {"groups": [{"name": "recorded", "rules": rules}]}
    (folder / "rules.yaml").write_text(yaml.safe_dump(groups))
    sample = {"labels": f'{UNPLACED_REPLICAS}{{model="llama"}}', "value": value}
    test = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "15s",
        "tests": [
            {
                "interval": "30s",
                "input_series": [
                    {"series": name, "values": values} for name, values in series.items()
                ],
                "promql_expr_test": [
                    {"expr": UNPLACED_REPLICAS, "eval_time": "10m", "exp_samples": [sample]}
                ],
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
