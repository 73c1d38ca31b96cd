"""The bounds hold on good rows and fail on each kind of bad ones."""

import pytest

from bench.laboratory.bounds import check, ratio
from bench.tests.unit.laboratory.conftest import a_row


def failing(rows):
    return {one.name for one in check(rows) if not one.passes}


def change(rows, policy, workload, least=0.0, **fields):
    for row in rows:
        if (row["policy"], row["workload"]) == (policy, workload) and row["rate_qps"] >= least:
            row.update(fields)
    return rows


def test_good_rows_hold_every_bound(rows):
    assert failing(rows) == set()
    assert len(check(rows)) >= 20


@pytest.mark.parametrize(
    "bad",
    [{"lost": 1}, {"refused": 1}, {"answered": 9}],
)
def test_one_row_that_is_not_sound_fails(rows, bad):
    rows[4].update(bad)
    assert failing(rows) == {"every request answered"}


def test_too_little_throughput_on_shared_prefixes_fails(rows):
    change(rows, "shipped", "shared_prefix", 20.0, throughput_tok_s=139.0)
    assert "shared_prefix: throughput of saturated replicas" in failing(rows)


def test_only_saturated_rates_count_for_the_gain_on_shared_prefixes(rows):
    change(rows, "shipped", "shared_prefix", throughput_tok_s=140.1)
    assert "shared_prefix: throughput of saturated replicas" not in failing(rows)


def test_slow_first_tokens_on_shared_prefixes_fail(rows):
    slow = {"p50": 1.0, "p95": 2.0, "p99": 401.0}
    change(rows, "shipped", "shared_prefix", 20.0, ttft_ms=slow)
    assert failing(rows) == {"shared_prefix: slowest first tokens"}


def test_first_tokens_that_nobody_measured_fail_their_bound_instead_of_counting_as_0(rows):
    change(rows, "shipped", "shared_prefix", 20.0, ttft_ms=None)
    assert failing(rows) == {
        "shared_prefix: slowest first tokens",
        "shared_prefix: no request waits for an answer",
    }
    assert {one.name: one.value for one in check(rows)}[
        "shared_prefix: slowest first tokens"
    ] is None


def test_a_cost_without_tokens_fails_its_bound(rows):
    change(rows, "shipped", "shared_prefix", 20.0, usd_per_mtok=None)
    assert failing(rows) == {"shared_prefix: cost per token"}


def test_dear_tokens_on_shared_prefixes_fail(rows):
    change(rows, "shipped", "shared_prefix", 20.0, usd_per_mtok=7.1)
    assert failing(rows) == {"shared_prefix: cost per token"}


def test_adapters_that_wander_fail(rows):
    change(rows, "shipped", "lora", throughput_tok_s=129.0)
    assert "lora: adapters stay" in failing(rows)


@pytest.mark.parametrize("other", ["round_robin", "picker_defaults"])
def test_a_loss_of_more_than_three_percent_on_any_workload_fails(rows, other):
    change(rows, other, "mixed_lengths", steady_tok_s=104.0)
    assert failing(rows) == {f"mixed_lengths: not worse than {other}"}


def test_a_loss_of_less_than_three_percent_is_noise(rows):
    change(rows, "round_robin", "mixed_lengths", steady_tok_s=102.0)
    assert failing(rows) == set()


def test_no_gain_over_the_defaults_on_unequal_hardware_fails(rows):
    change(rows, "shipped", "unequal_hardware", goodput_share=0.181)
    assert failing(rows) == {"unequal_hardware: better than picker_defaults"}


def test_fewer_answers_within_the_slo_under_load_fail(rows):
    change(rows, "shipped", "mixed_lengths", goodput_share=0.08)
    assert failing(rows) == {
        "mixed_lengths: not worse than round_robin when loaded",
        "mixed_lengths: not worse than picker_defaults when loaded",
    }


def test_missing_rows_fail_rather_than_pass(rows):
    assert failing([row for row in rows if row["policy"] != "shipped"]) >= {
        "shared_prefix: throughput of saturated replicas",
        "lora: adapters stay",
        "unequal_hardware: better than picker_defaults",
        "mixed_lengths: not worse than round_robin",
    }


def test_nothing_against_something_is_the_worst_ratio_and_something_against_nothing_is_even():
    rows = [a_row("shipped", 0.0), a_row("round_robin", 100.0)]
    pair = ("shared_prefix", "shipped", "round_robin")
    assert ratio(rows, *pair, lambda r: r["goodput"]) == 0.0
    assert ratio(rows, pair[0], pair[2], pair[1], lambda r: r["goodput"]) == 1.0
    assert ratio(rows, "no such workload", *pair[1:], lambda r: r["goodput"]) is None


def test_ratios_are_of_pairs_and_are_averaged_by_factors():
    rows = [
        a_row("shipped", 200.0, seed=1), a_row("round_robin", 100.0, seed=1),
        a_row("shipped", 100.0, seed=2), a_row("round_robin", 200.0, seed=2),
        a_row("shipped", 900.0, seed=3),
    ]  # fmt: skip
    found = ratio(rows, "shared_prefix", "shipped", "round_robin", lambda r: r["throughput_tok_s"])
    assert found == 1.0


def seeded(ratios, rate=20.0, workload="shared_prefix"):
    """Rows of a workload at one rate, a ratio of the tails a seed."""
    made = []
    for seed, longer in enumerate(ratios, 1):
        for policy, p99 in (("picker_defaults", 100.0), ("shipped", 100.0 * longer)):
            made.append(a_row(policy, 100.0, rate=rate, seed=seed, p99=p99, workload=workload))
    return made


def tails(rows):
    return [one for one in check(rows) if "slowest first tokens not worse" in one.name]


def test_a_longer_tail_than_the_defaults_fails_unless_seeds_differ_by_as_much():
    (steady,) = tails(seeded([1.10, 1.11, 1.12]))
    assert not steady.passes
    assert steady.value == pytest.approx(1.11, abs=0.001)
    assert steady.bound == pytest.approx(1.043, abs=0.001)
    assert "3 seeds; one varies by x1.01" in steady.what
    (noisy,) = tails(seeded([0.9, 1.1, 1.25]))
    assert noisy.passes


def test_seeds_that_differ_at_one_rate_excuse_no_other_rate():
    rows = [*seeded([1.10, 1.11, 1.12]), *seeded([0.9, 1.1, 1.25], rate=30.0)]
    assert [one.passes for one in tails(rows)] == [False, True]


def test_no_spread_excuses_half_as_much_again():
    (wild,) = tails(seeded([0.5, 1.0, 8.0]))
    assert wild.bound == 1.5
    assert not wild.passes


def test_a_seed_without_first_tokens_fails_the_tails_of_its_rate():
    rows = seeded([1.0, 1.0, 1.0])
    rows[-1]["ttft_ms"] = None
    (found,) = tails(rows)
    assert (found.value, found.passes) == (None, False)


def test_tails_are_judged_for_each_rate_of_each_workload_and_only_with_several_seeds():
    rows = [
        *seeded([1.0, 1.0]),
        *seeded([9.0, 9.0], rate=60.0),
        *seeded([1.3, 1.3], workload="mixed_lengths"),
    ]
    assert [one.passes for one in tails(rows)] == [True, False, False]
    assert tails(seeded([9.0])) == []


def test_one_seed_in_which_requests_wait_for_answers_on_full_replicas_fails():
    rows = [*seeded([1.0] * 7, rate=40.0), a_row("shipped", 100.0, rate=40.0, seed=8, p99=20_000.0)]
    assert "shared_prefix: no request waits for an answer" in failing(rows)
    assert "shared_prefix: no request waits for an answer" not in failing(rows[:-1])


def agents(shipped, affinity=100.0, turns=40.0):
    steady = {"round_robin": turns, "picker_defaults": turns, "shipped": shipped}
    steady["session_affinity"] = affinity
    return [
        a_row(policy, value, workload="agents", rate=4.0, steady_tok_s=value)
        for policy, value in steady.items()
    ]


def test_agents_that_lose_their_sessions_fail():
    assert failing(agents(95.5)) == set()
    assert failing(agents(94.0)) == {"agents: close to session_affinity"}
    assert failing(agents(98.0, turns=50.0)) == {"agents: twice round_robin"}
