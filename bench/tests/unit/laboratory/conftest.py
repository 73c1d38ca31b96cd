"""Rows as the laboratory writes them."""

import pytest


def a_row(policy, throughput, *, workload="shared_prefix", rate=20.0, seed=1, p99=1000.0, **more):
    return {
        "workload": workload, "policy": policy, "seed": seed, "rate_qps": rate,
        "sent": 10, "answered": 10, "refused": 0, "lost": 0,
        "throughput_tok_s": throughput, "ttft_ms": {"p50": 1.0, "p95": 2.0, "p99": p99},
        "tpot_ms": {"p50": 1.0, "p95": 2.0, "p99": 3.0},
        "ttft_mean_ms": 500.0, "goodput": throughput / 100, "steady_tok_s": throughput,
        "goodput_share": throughput / 1000,
        "usd_per_mtok": 1000 / max(throughput, 1), "prefix_hit_rate": 0.5,
        **more,
    }  # fmt: skip


def good_rows():
    """Rows that hold every bound."""
    rows = []
    for workload, rates in (
        ("shared_prefix", (3.0, 20.0, 60.0)), ("lora", (12.0, 24.0)), ("mixed_lengths", (16.0,)),
        ("unequal_hardware", (20.0, 60.0)),
    ):  # fmt: skip
        for rate in rates:
            gain = 1.0 if rate == 3.0 or workload == "mixed_lengths" else 2.0
            rows += [
                a_row("round_robin", 100.0, workload=workload, rate=rate, p99=1000.0),
                a_row("picker_defaults", 90.0 * gain, workload=workload, rate=rate, p99=400.0),
                a_row("shipped", 100.0 * gain, workload=workload, rate=rate, p99=300.0),
            ]
    return rows


@pytest.fixture
def rows():
    return good_rows()
