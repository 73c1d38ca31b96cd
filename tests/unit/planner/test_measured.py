"""Measurements of users: results of `vllm bench serve`, here those of one H100."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from planner.speed import points as published
from planner.speed.correction import (
    Correction,
    correction,
    first_correction,
    forget,
    gather,
    residuals,
    traits_of,
)
from planner.speed.measured import include, rows_of
from planner.speed.points import Point, points_of, rows

RESULTS = Path(__file__).parent / "measured" / "llama-3.1-8b-h100.jsonl"


def result(**changes: Any) -> dict[str, Any]:
    return json.loads(RESULTS.read_text().splitlines()[0]) | changes


@pytest.fixture
def only_published() -> Iterator[None]:
    """Forgets what a test adds."""
    yield
    published.ADDED.clear()
    published.points.cache_clear()
    forget()


def test_results_of_vllm_are_the_rows_that_the_data_has_of_them():
    sets = ("measured", "llama3.1-8b", "bf16")
    ours = [row for row in rows() if (row["kind"], row["model"], row["precision"]) == sets]
    read = rows_of(RESULTS)
    same = ("accelerator", "chips", "input_tokens", "output_tokens", "load", "precision")
    same += ("output_tokens_per_second", "ttft_ms", "tpot_ms", "engine", "parallelism")
    assert [{key: row[key] for key in same} for row in read] == [
        {key: row[key] for key in same} for row in ours
    ]


def test_one_result_is_a_file_too(tmp_path: Path):
    (tmp_path / "own.json").write_text(json.dumps(result(), indent=1))
    assert len(rows_of(tmp_path / "own.json")) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"accelerator": ""}, "accelerator: is required .*--metadata accelerator="),
        ({"chips": None}, "chips: is required"),
        ({"request_rate": 4.0}, "request_rate: must be inf, with a max_concurrency, got 4.0 and 1"),
        ({"max_concurrency": None}, "request_rate: must be inf, .*got inf and None"),
        ({"precision": "BF16"}, "precision: must be one of bf16, .*, got 'BF16'"),
        ({"mean_tpot_ms": "6.5"}, "mean_tpot_ms: must be a number, got '6.5'"),
        ({"output_throughput": None}, "output_throughput: must be a number, got None"),
        ({"failed": 2}, "failed: must be 0 of at least one request, got 2"),
        ({"completed": 0}, "failed: must be 0 of at least one request"),
    ],
)
def test_a_result_that_says_too_little_is_refused(tmp_path: Path, changes, message: str):
    (tmp_path / "own.json").write_text(json.dumps(result(**changes)))
    with pytest.raises(ValueError, match=f"^{message}"):
        rows_of(tmp_path / "own.json")


def test_the_estimate_follows_measurements_that_are_added(tmp_path: Path, only_published: None):
    slow = result(
        accelerator="nvidia-l4", output_throughput=40.0, mean_tpot_ms=80.0, mean_ttft_ms=900.0
    )
    (tmp_path / "own.json").write_text(json.dumps(slow))
    own = rows_of(tmp_path / "own.json")
    (_, between, first) = points_of(own)
    pairs = [(correction, between), (first_correction, first)]
    before = [off(*pair) for pair in pairs]
    include(own)
    for pair, was in zip(pairs, before, strict=True):
        assert off(*pair) < was / 2


def off(fitted: Callable[[], Correction], point: Point) -> float:
    """Return how far the correction is from a measurement."""
    found = fitted().mean(gather([traits_of(point)]))
    return abs(float(found[0]) - float(residuals([point])[0]))


def test_a_measurement_of_one_model_leaves_the_others_as_they_are(
    tmp_path: Path, only_published: None
):
    (tmp_path / "own.json").write_text(json.dumps(result(mean_tpot_ms=80.0)))
    other = [point for point in points_of(rows()) if "32B" in point.row["model"]][:3]
    at = gather([traits_of(point) for point in other])
    before = correction().mean(at)
    include(rows_of(tmp_path / "own.json"))
    assert correction().mean(at).tolist() == before.tolist()


def test_the_links_of_a_machine_can_be_stated(tmp_path: Path):
    own = [result(chips=2), result(chips=2, link_gb_per_s=16)]
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, own)))
    fast, slow = (
        float(points_of([row])[0].work.link_token[0]) for row in rows_of(tmp_path / "own.jsonl")
    )
    assert slow == pytest.approx(fast * 450 / 16)
