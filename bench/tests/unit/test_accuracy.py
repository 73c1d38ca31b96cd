"""The page of the planner's accuracy, its bounds, and the comparison with aiconfigurator."""

from dataclasses import dataclass
from statistics import median
from typing import Any

import pytest

from bench import aiconfigurator
from bench.accuracy import PAGE, line_of, rival_rows
from bench.bounds import check
from planner.speed.all_to_all import kernels
from planner.speed.errors import Compared, Group, families, left_out
from planner.speed.points import BETWEEN, FIRST, QUANTITIES, loops, points_of


def test_the_page_has_the_errors_that_the_planner_measures():
    page = PAGE.read_text().splitlines()
    assert [name for name in families() if line_of(name.name, name) not in page] == []
    for quantity in QUANTITIES:
        assert line_of("point", left_out("point").of(quantity)) in page
    for backend in {one.backend for one in kernels()}:
        errors = sorted(abs(one.error) for one in kernels() if one.backend == backend)
        line = f"| {backend} | {len(errors)} | {median(errors):.0%} | {errors[-1]:.0%} |"
        assert line in page


def rows(**changes: float) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [
        {"engine": "vllm", "quantity": BETWEEN, "estimates": "planner",
         "median_percent": 9.0, "nine_in_ten_percent": 29.0},
        {"engine": "vllm", "quantity": FIRST, "estimates": "planner",
         "median_percent": 12.0, "nine_in_ten_percent": 35.0},
        {"engine": "all", "quantity": FIRST, "estimates": "planner",
         "median_percent": 26.0, "nine_in_ten_percent": 80.0},
        {"contests": "all", "wrong_chip_percent": 0.0},
        *({"intervals": quantity, "held_percent": 76.2} for quantity in QUANTITIES),
    ]  # fmt: skip
    return [{key: changes.get(key, value) for key, value in row.items()} for row in made]


def test_a_planner_that_is_wrong_too_often_misses_its_bounds():
    assert all(one.passes for one in check("accuracy", rows()))
    wrong = rows(median_percent=31, nine_in_ten_percent=91, wrong_chip_percent=4, held_percent=84.1)
    assert not any(one.passes for one in check("accuracy", wrong))
    assert not any(one.passes for one in check("accuracy", []))


@dataclass
class Answer:
    ttft: float
    tpot: float


@pytest.fixture
def group() -> Group:
    """Return two quantities of one closed loop, estimated at twice what was published."""
    sets = ("vLLM", "inferencex", "")
    row = next(row for row in loops() if (row["engine"], row["kind"], row["note"]) == sets)
    items = [Compared(p, 2 * p.published, p.published, 3 * p.published) for p in points_of([row])]
    return Group("loops", tuple(items))


def test_aiconfigurator_is_asked_for_the_same_loop_and_stands_beside_the_planner(
    monkeypatch: pytest.MonkeyPatch, group: Group
):
    asked: list[dict[str, Any]] = []
    between, first = group.compared

    def estimate(model: str, system: str, **values: Any) -> Answer:
        asked.append({"model": model, "system": system, **values})
        return Answer(first.point.published, 1.5 * between.point.published)

    monkeypatch.setattr(aiconfigurator, "estimator", lambda: estimate)
    monkeypatch.setattr("bench.accuracy.estimator", lambda: estimate)
    found = {
        (row["engine"], row["quantity"], row["estimates"]): row["median_percent"]
        for row in rival_rows(group)
    }
    assert found["vllm", BETWEEN, "aiconfigurator"] == 50.0
    assert found["vllm", FIRST, "aiconfigurator"] == 0.0
    assert found["vllm", BETWEEN, "planner, same rows"] == 100.0
    assert ("sglang", BETWEEN, "aiconfigurator") not in found
    point = between.point
    (one,) = asked
    assert (one["backend_name"], one["tp_size"]) == ("vllm", point.chips)
    assert one["isl"] == round(0.9 * float(point.row["input_tokens"]))
    assert one["batch_size"] == round(point.asked)


def test_a_loop_that_aiconfigurator_cannot_answer_is_left_out(
    monkeypatch: pytest.MonkeyPatch, group: Group
):
    def estimate(*_: Any, **__: Any) -> Answer:
        raise ValueError("OOM")

    monkeypatch.setattr(aiconfigurator, "estimator", lambda: estimate)
    monkeypatch.setattr("bench.accuracy.estimator", lambda: estimate)
    assert rival_rows(group) == []


def test_without_aiconfigurator_there_is_nothing_beside_the_planner(
    monkeypatch: pytest.MonkeyPatch, group: Group
):
    monkeypatch.setattr("bench.accuracy.estimator", lambda: None)
    assert rival_rows(group) == []
