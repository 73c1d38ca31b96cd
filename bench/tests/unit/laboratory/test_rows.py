"""A row has the results and the cost of a stage."""

import pytest

from bench.laboratory.policies import policies
from bench.laboratory.rows import row_of
from simulator.replays.picker_configs import Facts
from simulator.replays.workloads import StageSpec, workloads
from simulator.traffic import Outcome, Record, Report

RECORDS = (
    Record(0, Outcome.ANSWERED, 0.0, 0.0, 2.0, 1.0, 2.0, 101, replica="a"),
    Record(1, Outcome.ANSWERED, 1.0, 1.0, 4.0, 2.0, 4.0, 101, replica="b"),
    Record(2, Outcome.REFUSED, 1.0, 1.0, 1.0, error="http-429"),
)


def test_throughput_price_and_goodput_are_those_of_the_stage():
    workload = workloads()["mixed_lengths"]
    policy = policies(Facts())[0]
    row = row_of(workload, policy, 1, StageSpec(3, 1), Report(RECORDS), 0.25, "digest")
    assert (row["sent"], row["answered"], row["refused"], row["lost"]) == (3, 2, 1, 0)
    assert row["throughput_tok_s"] == 50.5
    price = workload.usd_per_hour / (50.5 * 3600) * 1e6
    assert row["usd_per_mtok"] == pytest.approx(price, rel=0.01)
    assert (row["prefix_hit_rate"], row["trace"]) == (0.25, "digest")
    assert row["answers_of_replicas"] == {"a": 1, "b": 1}


def test_a_later_start_changes_all_times_of_a_report():
    later = Report(RECORDS).shifted(10.0)
    assert [record.due for record in later.records] == [10.0, 11.0, 11.0]
    assert later.summary().ttft_ms == Report(RECORDS).summary().ttft_ms
    assert later.records[2].first is None
