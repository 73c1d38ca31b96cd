"""The page of the docs says what the file says."""

from bench.laboratory.bounds import check
from bench.laboratory.calibration import calibration_errors
from bench.laboratory.results import page
from bench.tests.unit.laboratory.conftest import a_row


def result(rows):
    checks = check(rows)
    return {
        "date": "2026-11-21", "command": "bench routing", "machine": "2 cores",
        "seconds": 900.0, "picker": "v1.2.0", "rows": rows,
        "checks": [one.as_dict() for one in checks], "calibration": calibration_errors(rows),
    }  # fmt: skip


def test_every_bound_and_every_row_is_on_the_page(rows):
    text = page(result(rows))
    assert "| lora: adapters stay | throughput at 24 QPS | 2 | at least 1.3 | holds |" in text
    assert "| 60 | shipped | 200 | 1 / 2 / 300 | 1 / 3 | 2.00 | 5.00 | 50% |" in text
    assert "images/routing-shared-prefix.svg" in text
    assert "| 20 | round_robin | 6,205 | 100 | -98% | 18.1 | 0.5 |" in text


def test_figures_that_nobody_measured_are_dashes_on_the_page(rows):
    rows = [a_row("shipped", 200.0, ttft_ms=None, ttft_mean_ms=None, usd_per_mtok=None)]
    text = page(result(rows))
    assert "| 20 | shipped | 200 | - / - / - | 1 / 3 | 2.00 | - | 50% |" in text
    assert "| 20 | shipped | 11,688 | 200 | -98% | 0.174 | - |" in text
    assert "| no figures |" in text


def test_a_bound_that_fails_is_seen_on_the_page(rows):
    rows[-1]["lost"] = 1
    assert "**fails**" in page(result(rows))


def test_tails_are_shown_seed_by_seed_where_there_are_several():
    rows = [
        a_row(policy, 100.0, seed=seed, p99=p99, answers_of_replicas={"a": 95, "b": 90 + seed})
        for policy, seed, p99 in (("shipped", 2, 130.0), ("shipped", 1, 120.0))
    ]
    assert "| shared_prefix | 20 | shipped | 120 / 130 | 10.0% / 10.0% | 95 / 95 |" in page(
        result(rows)
    )
    assert "first tokens by seed" not in page(result(rows[:1]))
