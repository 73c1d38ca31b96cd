"""Records of requests and counters of engines, side by side."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from infra.plan import resolve
from infra.reading.load import parse, read
from scripts.clients.reconcile import (
    Compared,
    Window,
    base_models,
    compare,
    counted,
    estimated,
    print_comparison,
    recorded,
)
from tests.contract.infra.broken_stacks import edited
from twin.cluster.monitoring.promql import Sample

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
WINDOW = Window(NOW - timedelta(hours=1), NOW - timedelta(seconds=30))
PLAN = resolve(read("prod"))


def record(model: str, minutes_ago: float, **tokens: int) -> dict[str, Any]:
    at = (NOW - timedelta(minutes=minutes_ago)).isoformat().replace("+00:00", "Z")
    return {"completion_tokens": 0, "model": model, "prompt_tokens": 0, "time": at} | tokens


@dataclass
class Counters:
    """A cluster whose Prometheus has the counters of each job: at the beginning, and at the end."""

    plan: Any
    known: dict[str, tuple[float, ...]]
    """First and last value; of a counter that was reset, also its growth in all."""
    asked: list[str]

    def query(self, expression: str) -> list[Sample]:
        self.asked.append(expression)
        at = 2 if expression.startswith("increase") else int("[3570s]" in expression)
        name = {} if at == 2 else {"__name__": "vllm:prompt_tokens_total"}
        return [
            Sample({**name, "job": job, "pod": "p"}, values[at], 0)
            for job, values in self.known.items()
            if f'job="{job}"' in expression and "prompt_tokens" in expression and at < len(values)
        ]


def test_records_of_adapters_count_for_their_model_and_older_ones_not_at_all():
    lines = [
        record("llama-3.1-8b", 10, prompt_tokens=100, completion_tokens=5),
        record("sql", 5, prompt_tokens=10, completion_tokens=1),
        record("llama-3.1-8b", 90, prompt_tokens=1000),
        record("llama-3.1-8b", 0.1, prompt_tokens=1000),
        record("somebody-elses", 5, prompt_tokens=7),
    ]
    assert recorded(lines, base_models(PLAN), WINDOW) == {
        ("llama-3.1-8b", "prompt"): 110,
        ("llama-3.1-8b", "completion"): 6,
    }


def test_counters_grow_series_by_series_and_one_that_was_reset_counts_all_its_parts():
    region = PLAN.regions["us-central1"]
    known: dict[str, tuple[float, ...]] = {
        "llama-3-1-8b": (1000.0, 1500.0),
        "gemma-3-27b": (900.0, 40.0, 310.2),
    }
    cluster: Any = Counters(region, known, [])
    found = counted([cluster, cluster], WINDOW, NOW)
    assert found["llama-3.1-8b", "prompt"] == 2 * 500
    assert found["gemma-3-27b", "prompt"] == 620
    assert found["llama-3.1-8b", "completion"] == 0
    assert not any("embedding" in one for one in cluster.asked), "embeddings pass no gate"
    assert f'cluster="{region.cluster_name}"' in cluster.asked[0]
    assert cluster.asked[0].endswith("[3570s] offset 30s)")
    assert cluster.asked[1].endswith("[5m] offset 3600s)")
    assert cluster.asked[2].endswith("[3570s] offset 30s) > 0")


def test_a_counter_that_was_reset_just_before_the_period_counts_from_zero():
    cluster: Any = Counters(PLAN.regions["us-central1"], {"gemma-3-27b": (900.0, 40.0)}, [])
    assert counted([cluster], WINDOW, NOW)["gemma-3-27b", "prompt"] == 40


def test_a_canary_counts_for_its_model():
    canary = {"percent": 10, "version": "v2", "weights": "llama-3.1-8b-v2"}
    at = ["models", "llama-3.1-8b", "canary"]
    platform = parse(json.dumps(edited("prod", [{"at": at, "value": canary}])))
    known: dict[str, tuple[float, ...]] = {
        "llama-3-1-8b": (0.0, 90.0),
        "llama-3-1-8b-v2": (0.0, 10.0),
    }
    cluster: Any = Counters(resolve(platform).regions["us-central1"], known, [])
    found = counted([cluster], WINDOW, NOW)
    assert found["llama-3.1-8b", "prompt"] == 100
    assert ("llama-3.1-8b-v2", "prompt") not in found


@pytest.mark.parametrize(
    ("counts", "agrees", "difference"),
    [
        ((1_000_000, 1_000_000), True, 0.0),
        ((999_500, 1_000_000), True, 0.0005),
        ((998_000, 1_000_000), False, 0.002),
        ((1_002_000, 1_000_000), False, -0.002),
        ((0, 90), True, 1.0),
        ((0, 110), False, 1.0),
    ],
)
def test_both_sides_agree_within_a_thousandth_or_a_hundred_tokens(counts, agrees, difference):
    row = Compared("m", "prompt", *counts)
    assert row.agrees is agrees
    assert row.difference == pytest.approx(difference, rel=1e-2, abs=1e-9)


def test_a_model_that_nobody_asked_is_left_out():
    rows = compare({("a", "prompt"): 5}, {("a", "prompt"): 5, ("b", "prompt"): 0}, {})
    assert [(row.model, row.kind) for row in rows] == [("a", "prompt")]


@pytest.mark.parametrize(
    ("counts", "verdict"),
    [
        ((999_500, 1_000_000, 0), "yes"),
        ((11, 12, 0), "within 100 tokens"),
        ((700_000, 720_000, 100_000), "within the estimates"),
        ((700_000, 730_000, 100_000), "no"),
        ((700_000, 720_000, 0), "no"),
    ],
)
def test_the_comparison_says_why_both_sides_agree(counts, verdict, capsys):
    row = Compared("m", "completion", *counts)
    assert (row.verdict, row.agrees) == (verdict, verdict != "no")
    print_comparison([row])
    assert capsys.readouterr().out.rstrip().endswith(verdict)


def test_a_prompt_that_no_engine_has_read_is_in_the_records_alone():
    assert Compared("m", "prompt", 100_000, 80_000, 20_000).verdict == "within the estimates"
    assert Compared("m", "prompt", 80_000, 100_000, 20_000).verdict == "no"
    assert Compared("m", "completion", 100_000, 80_000, 20_000).verdict == "no"


def test_tokens_of_requests_without_reported_usage_are_shown_apart():
    lines = [
        record("llama-3.1-8b", 10, prompt_tokens=100, completion_tokens=5),
        record("sql", 5, prompt_tokens=10, completion_tokens=40) | {"estimated": True},
    ]
    found = estimated(lines, base_models(PLAN), WINDOW)
    assert found == {("llama-3.1-8b", "prompt"): 10, ("llama-3.1-8b", "completion"): 40}
