"""The callout's own share of the latency that it adds."""

from typing import Any

from bench.latency.callout import _rows
from bench.latency.processing import Histogram, added, own_mean_ms, phases_of

BEFORE = """
callout_processing_seconds_bucket{phase="decision",le="0.001"} 10
callout_processing_seconds_bucket{phase="decision",le="0.005"} 10
callout_processing_seconds_bucket{phase="decision",le="+Inf"} 10
callout_processing_seconds_sum{phase="decision"} 0.004
callout_processing_seconds_count{phase="decision"} 10
callout_processing_seconds_count{phase="cache"} 0
callout_key_document_age_seconds 1.5
"""
AFTER = """
callout_processing_seconds_bucket{phase="decision",le="0.001"} 90
callout_processing_seconds_bucket{phase="decision",le="0.005"} 108
callout_processing_seconds_bucket{phase="decision",le="+Inf"} 110
callout_processing_seconds_sum{phase="decision"} 0.204
callout_processing_seconds_count{phase="decision"} 110
callout_processing_seconds_count{phase="cache"} 0
callout_processing_seconds_bucket{phase="request_headers",le="0.001"} 100
callout_processing_seconds_bucket{phase="request_headers",le="+Inf"} 100
callout_processing_seconds_sum{phase="request_headers"} 0.01
callout_processing_seconds_count{phase="request_headers"} 100
"""


def test_only_what_was_observed_between_two_pages_counts():
    found = added(BEFORE, AFTER)
    assert sorted(found) == ["decision", "request_headers"]
    decision = found["decision"]
    assert decision.count == 100
    assert decision.buckets == {0.001: 80, 0.005: 98, float("inf"): 100}
    assert own_mean_ms(found, 100) == 2.1


def test_a_quantile_is_interpolated_in_its_bucket():
    decision = added(BEFORE, AFTER)["decision"]
    assert decision.quantile(0.5) == 0.001 * 50 / 80
    assert decision.quantile(0.89) == 0.001 + 0.004 * 9 / 18


def test_a_quantile_above_the_last_bound_is_unknown_and_not_the_bound():
    decision = added(BEFORE, AFTER)["decision"]
    assert decision.quantile(0.99) is None
    assert Histogram().quantile(0.5) is None


def test_every_phase_of_the_callouts_own_source_is_read():
    page = AFTER.replace('phase="decision"', 'phase="response_chunk"')
    assert sorted(phases_of(page)) == ["cache", "request_headers", "response_chunk"]


def test_the_benchmark_reports_the_callouts_own_time_beside_the_total():
    seconds = {"through the callout": [0.055] * 100, "without it": [0.050] * 100}
    rows: list[dict[str, Any]] = _rows(seconds, added(BEFORE, AFTER))
    by_name = {row["what"]: row for row in rows}
    assert by_name["in the callout: decision"]["p50_ms"] == 0.625
    assert by_name["in the callout: decision"]["p99_ms"] is None
    assert by_name["in the callout: request_headers"]["n"] == 100
    assert (by_name["added"]["mean_ms"], by_name["added"]["in_callout_ms"]) == (5.0, 2.1)
