"""Errors against the published ladder are relative and cover every rate that was run."""

from bench.laboratory.calibration import PUBLISHED, calibration_errors
from bench.tests.unit.laboratory.conftest import a_row


def test_each_published_rate_that_was_run_has_its_error():
    rows = [
        a_row("round_robin", 6205.0 * 1.1, ttft_mean_ms=18_100.0),
        a_row("shipped", 11_688.0, ttft_mean_ms=87.0),
        a_row("shipped", 1.0, workload="lora"),
    ]
    baseline, optimized = calibration_errors(rows)
    assert (baseline["error_tok_s"], baseline["error_ttft"]) == (0.1, 0.0)
    assert (optimized["error_tok_s"], optimized["error_ttft"]) == (0.0, -0.5)


def test_the_published_gain_at_saturation_is_the_one_that_was_copied():
    top = PUBLISHED[-1]
    assert top.rate_qps == 60
    assert 2.5 < top.optimized_tok_s / top.baseline_tok_s < 2.7


def test_several_seeds_count_with_their_mean():
    rows = [a_row("shipped", 11_688.0 * part, seed=seed) for seed, part in ((1, 0.9), (2, 1.3))]
    assert calibration_errors(rows)[0]["error_tok_s"] == 0.1
