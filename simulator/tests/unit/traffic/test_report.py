"""Totals are computed from records as documented."""

import pytest

from simulator.traffic import Outcome, Percentiles, Record, Report, Slo


def record(number, due, ttft, tokens, tpot, outcome=Outcome.ANSWERED, **fields):
    first = due + ttft
    last = first + tpot * (tokens - 1)
    return Record(number, outcome, due, due, last, first, last, tokens, **fields)


def test_percentiles_are_interpolated_between_neighbours():
    assert Percentiles.of([0.001 * n for n in range(101)]) == Percentiles(50.0, 95.0, 99.0)
    assert Percentiles.of([0.001, 0.002]) == Percentiles(1.5, 1.95, 1.99)


def test_times_that_nobody_measured_have_no_percentiles():
    assert Percentiles.of_any([]) is None
    with pytest.raises(ValueError, match="must have a value, got none"):
        Percentiles.of([])


def test_a_replay_without_streamed_responses_has_no_times_of_tokens():
    found = Report((Record(0, Outcome.ANSWERED, 0.0, 0.0, 2.0, tokens=10),)).summary()
    assert (found.ttft_ms, found.tpot_ms, found.ttft_mean_ms) == (None, None, None)
    assert (found.answered, found.throughput_tok_s) == (1, 5.0)


def test_throughput_counts_complete_answers_until_the_last_has_drained():
    report = Report((record(0, 0.0, 1.0, 101, 0.01), record(1, 1.0, 1.0, 101, 0.02)))
    found = report.summary()
    assert found.seconds == 4.0
    assert found.throughput_tok_s == pytest.approx(202 / 4.0, abs=0.1)
    assert found.ttft_ms is not None
    assert found.tpot_ms is not None
    assert (found.ttft_ms.p50, found.tpot_ms.p50) == (1000.0, 15.0)
    assert found.ttft_mean_ms == 1000.0


def test_steady_throughput_counts_what_came_while_requests_were_sent():
    before = record(0, 0.0, 1.0, 101, 0.01)
    across = record(1, 0.0, 1.0, 101, 0.08)  # from 1 s to 9 s
    after = record(2, 0.0, 6.0, 101, 0.01)
    lost = record(3, 0.0, 1.0, 101, 0.01, Outcome.LOST)
    report = Report((before, across, after, lost))
    assert report.steady_tok_s(5.0) == pytest.approx((101 + 101 / 2) / 5.0, abs=0.1)


def test_goodput_counts_only_what_kept_both_promises():
    slo = Slo(ttft_ms=500, tpot_ms=20)
    report = Report(
        (
            record(0, 0.0, 0.4, 101, 0.01),
            record(1, 0.0, 0.6, 101, 0.01),
            record(2, 0.0, 0.4, 101, 0.03),
            record(3, 0.0, 0.4, 1, 0.0),
            record(4, 0.0, 0.1, 101, 0.01, Outcome.LOST, error="reset"),
        )
    )
    found = report.summary(slo)
    assert found.goodput_share == 0.4
    assert found.goodput == pytest.approx(2 / found.seconds, abs=0.001)
    assert report.summary().goodput is None


def test_a_request_that_the_client_sends_late_does_not_look_faster():
    late = Record(0, Outcome.ANSWERED, 1.0, 1.5, 3.0, 2.0, 3.0, 2)
    assert (late.ttft, late.lag) == (1.0, 0.5)


def test_the_clients_lag_is_in_real_time():
    late = Record(0, Outcome.ANSWERED, 1.0, 1.5, 3.0, 2.0, 3.0, 2)
    assert Report((late,), speed=10.0).summary().lag_p99_ms == 50.0


def test_an_interval_of_a_replay_is_a_replay():
    report = Report(tuple(record(n, float(n), 0.1, 2, 0.1) for n in range(10)))
    part = report.between(2.0, 5.0)
    assert [r.number for r in part.records] == [2, 3, 4]
    assert part.summary().seconds == pytest.approx(2.2)


def test_answers_are_counted_for_each_replica():
    records = (
        record(0, 0.0, 0.1, 2, 0.1, replica="a"),
        record(1, 0.0, 0.1, 2, 0.1, replica="a"),
        record(2, 0.0, 0.1, 2, 0.1, Outcome.LOST, replica="b"),
    )
    assert Report(records).replicas() == {"a": 2}


def test_an_empty_replay_has_no_figures_and_no_errors():
    found = Report(()).summary(Slo(1, 1))
    assert (found.sent, found.throughput_tok_s, found.goodput) == (0, 0, 0.0)
