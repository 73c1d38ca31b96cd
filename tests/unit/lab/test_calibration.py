"""Errors against the published ladder are relative and cover every rate that was run."""

from tests.unit.lab.conftest import a_row
from twin.lab.calibration import PUBLISHED, calibration_errors


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
