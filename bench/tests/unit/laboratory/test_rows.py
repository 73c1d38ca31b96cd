"""A row has the results and the cost of a stage, and whether it is valid."""

import pytest

from bench.laboratory.lockstep import Stage
from bench.laboratory.policies import policies
from bench.laboratory.rows import is_valid, row_of
from simulator.replays.picker_configs import Facts
from simulator.replays.workloads import StageSpec, workloads
from simulator.traffic import Outcome, Record, Report, Trace

RECORDS = (
    Record(0, Outcome.ANSWERED, 0.0, 0.0, 2.0, 1.0, 2.0, 101, replica="a"),
    Record(1, Outcome.ANSWERED, 1.0, 1.0, 4.0, 2.0, 4.0, 101, replica="b"),
    Record(2, Outcome.REFUSED, 1.0, 1.0, 1.0, error="http-429"),
)


def test_throughput_price_and_goodput_are_those_of_the_stage():
    workload = workloads()["mixed_lengths"]
    policy = policies(Facts())[0]
    stage = Stage(Report(RECORDS), wall_seconds=2.0, hops=[0.001, 0.003])
    row = row_of(workload, policy, 1, StageSpec(3, 1), Trace("t", ()), stage, (100, 25))
    assert (row["sent"], row["answered"], row["refused"], row["lost"]) == (3, 2, 1, 0)
    assert row["throughput_tok_s"] == 50.5
    price = workload.usd_per_hour / (50.5 * 3600) * 1e6
    assert row["usd_per_mtok"] == pytest.approx(price, rel=0.01)
    assert (row["speed"], row["prefix_hit_rate"], row["valid"]) == (2.0, 0.25, True)
    assert row["gateway_ms"]["p50"] == 2.0
    assert row["answers_of_replicas"] == {"a": 1, "b": 1}


def test_a_late_client_or_a_picker_that_saw_nothing_makes_a_row_invalid():
    assert is_valid(0.0, 10, has_picker=True)
    assert is_valid(0.0, 0, has_picker=False)
    assert not is_valid(0.0, 0, has_picker=True)
    assert not is_valid(5.0, 10, has_picker=True)
