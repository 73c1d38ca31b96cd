import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gke_inference.catalogue.input_error import InputError
from simulator.demand import Arrivals, Generated, Origin, default_day
from simulator.demand.arrivals import COLUMNS, GROWING
from simulator.demand.pattern import Burst, Documents, Kind, Pattern, Rate, Sessions, pattern_of

_KINDS = st.sampled_from(
    [
        Kind(share=1, prompt_tokens=100, output_tokens=((0, 1), (50, 20), (100, 300))),
        Kind(share=2, gap_cv=4, prompt_tokens=((0, 10), (100, 9000)), output_tokens=30,
             documents=Documents(requests=3, share=0.4)),
        Kind(share=0.5, gap_cv=13, output_tokens=40,
             sessions=Sessions(turns=5, first_tokens=500, tokens_per_turn=300)),
    ]
)  # fmt: skip


@st.composite
def _patterns(draw: st.DrawFn) -> Pattern:
    models = draw(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3, unique=True))
    return Pattern(
        models={
            name: Rate(requests_per_second=draw(st.floats(0.05, 3)), context=draw(
                st.sampled_from([None, 1000, 8000])))
            for name in models
        },
        kinds={str(n): draw(_KINDS) for n in range(draw(st.integers(1, 2)))},
        hours=draw(st.sampled_from([None, (*range(1, 25),)])),
        ten_minute_peak=draw(st.sampled_from([None, 1.5, 3.3])),
        bursts=draw(st.sampled_from([(), (Burst(at_hours=0.5, minutes=7, factor=3),)])),
        teams=draw(st.sampled_from([{}, {"red": 3.0, "blue": 1.0}])),
        regions=draw(
            st.sampled_from([{}, {"r1": Origin(share=1), "r2": Origin(share=2, hours_ahead=-5)}])
        ),
        length_hours=draw(st.sampled_from([0.3, 1.7])),
        seed=draw(st.integers(0, 2**63)),
    )  # fmt: skip


def _all(pattern: Pattern, most: int) -> Arrivals:
    chunks = list(Generated(pattern).chunks(most))
    assert all(0 < len(chunk) <= most for chunk in chunks)
    nothing: list[Any] = [np.empty(0) for _ in COLUMNS]
    empty = Arrivals(*nothing)
    return Arrivals.joined(chunks) if chunks else empty


@settings(deadline=None, max_examples=25)
@given(_patterns(), st.sampled_from([50, 777, 5000]))
def test_requests_are_sorted_repeatable_and_the_same_in_chunks_of_any_size(
    pattern: Pattern, most: int
) -> None:
    found, other = _all(pattern, most), _all(pattern, 1_000_000)

    for name in COLUMNS:
        assert np.array_equal(getattr(found, name), getattr(other, name)), name
    assert np.all(np.diff(found.seconds) >= 0)
    assert (
        not len(found) or 0 <= found.seconds[0] <= found.seconds[-1] < pattern.length_hours * 3600
    )


@settings(deadline=None, max_examples=25)
@given(_patterns())
def test_requests_have_sizes_within_their_models_context_and_a_prefix_within_the_prompt(
    pattern: Pattern,
) -> None:
    found = _all(pattern, 1_000_000)

    assert np.all(found.prompt_tokens >= 1)
    assert np.all(found.output_tokens >= 1)
    assert np.all((found.prefix_tokens >= 0) & (found.prefix_tokens <= found.prompt_tokens))
    assert np.all((found.prefix >= 0) | (found.prefix_tokens == 0))
    for number, rate in enumerate(pattern.models.values()):
        if rate.context is not None:
            own = found.model == number
            assert np.all((found.prompt_tokens + found.output_tokens)[own] <= rate.context)


@pytest.mark.parametrize(("rate", "variation"), [(0.05, 1.0), (3.0, math.sqrt(30)), (60, 13.0)])
def test_a_burst_has_no_more_turns_than_sessions_are_open(rate: float, variation: float) -> None:
    sessions = Sessions(turns=43, first_tokens=100, tokens_per_turn=10, gap_seconds=10)
    kind = Kind(share=1, gap_cv=13.0, output_tokens=10, sessions=sessions)
    pattern = Pattern(
        models={"m": Rate(requests_per_second=rate)}, kinds={"k": kind}, length_hours=50 / rate
    )
    gaps = np.diff(_all(pattern, 1_000_000).seconds)
    assert np.std(gaps) / np.mean(gaps) == pytest.approx(variation, rel=0.1)


@pytest.mark.parametrize("gap_cv", [0.5, 1.1, 3.5, 13.0])
def test_a_stream_has_its_mean_rate_and_variation_of_gaps(gap_cv: float) -> None:
    rate, hours = 50.0, 1.5
    kind = Kind(share=1, gap_cv=gap_cv, prompt_tokens=10, output_tokens=10)
    pattern = Pattern(
        models={"m": Rate(requests_per_second=rate)}, kinds={"k": kind}, length_hours=hours
    )
    expected = rate * hours * 3600
    counts, gaps = list[int](), list[float]()

    for seed in range(8):
        found = _all(pattern.model_copy(update={"seed": seed}), 1_000_000)
        counts.append(len(found))
        gaps += np.diff(found.seconds).tolist()

    # the number of renewals is normal with this standard deviation; 4.5 of it: 7 in a million
    error = gap_cv * math.sqrt(expected / len(counts))
    assert np.mean(counts) == pytest.approx(expected, abs=4.5 * error)
    assert np.std(gaps) / np.mean(gaps) == pytest.approx(gap_cv, rel=0.05)


def test_the_default_day_has_the_published_shape() -> None:
    # sources are beside the figures in default_day.py
    traffic = default_day({"m": 40.0}, seed=3, teams=[f"team-{n}" for n in range(40)])
    windows, teams = np.zeros(144), np.zeros(40)
    chat, long, agents = 0, list[float](), list[Arrivals]()
    for chunk in traffic.chunks():
        windows += np.bincount((chunk.seconds // 600).astype(int), minlength=144)
        teams += np.bincount(chunk.team, minlength=40)
        chat += int(np.sum(chunk.prefix < 0))
        agents.append(chunk[chunk.prefix >= GROWING])
        long += chunk.prompt_tokens[(chunk.prefix >> 40) == 1].tolist()
    hours, total = windows.reshape(24, 6).sum(axis=1), windows.sum()

    assert total == pytest.approx(40 * 86_400, rel=0.02)
    assert hours.max() / hours.mean() == pytest.approx(1.46, rel=0.03)
    assert hours.min() / hours.mean() == pytest.approx(0.66, rel=0.05)
    assert windows.max() / windows.mean() == pytest.approx(3.3, rel=0.03)
    assert teams[:4].sum() / total == pytest.approx(0.7, abs=0.02)
    assert chat / total == pytest.approx(0.7, abs=0.01)
    assert np.median(long) == pytest.approx(6909, rel=0.05)
    assert np.mean(long) == pytest.approx(12_035, rel=0.05)
    turns = Arrivals.joined(agents)
    assert np.sum(turns.prefix_tokens) / np.sum(turns.prompt_tokens) == pytest.approx(
        0.96, abs=0.005
    )
    assert np.median(turns.prompt_tokens) == pytest.approx(142_000, rel=0.03)
    _, per_session = np.unique(turns.prefix, return_counts=True)
    assert np.median(per_session) == 43


def test_a_session_is_one_teams_and_each_turn_repeats_the_last_prompt() -> None:
    kind = Kind(
        share=1, output_tokens=40, sessions=Sessions(turns=5, first_tokens=500, tokens_per_turn=300)
    )
    pattern = Pattern(
        models={"m": Rate(requests_per_second=5.0)},
        kinds={"k": kind},
        teams={"red": 1, "blue": 1},
        length_hours=1,
    )

    found = _all(pattern, 1_000_000)

    whole = [n for n in np.unique(found.prefix) if np.sum(found.prefix == n) == 5]
    assert len(whole) > 1000
    assert set(found.team.tolist()) == {0, 1}
    for number in whole[:200]:
        session = found[found.prefix == number]
        assert session.prompt_tokens.tolist() == [500, 800, 1100, 1400, 1700]
        assert session.prefix_tokens.tolist() == [0, 500, 800, 1100, 1400]
        assert len(set(session.team.tolist())) == 1


def test_bursts_growth_days_and_regions_change_the_rate_as_stated() -> None:
    kind = Kind(share=1, prompt_tokens=10, output_tokens=10)
    base = Pattern(
        models={"m": Rate(requests_per_second=8.0)}, kinds={"k": kind}, length_hours=72,
        growth_per_day=0.5, days=(1, 1, 2, 1, 1, 1, 1), hours=(2, *([1] * 22), 0),
        bursts=(Burst(at_hours=10, minutes=60, factor=3),),
        regions={"home": Origin(share=3), "ahead": Origin(share=1, hours_ahead=1)},
    )  # fmt: skip

    found = _all(base, 1_000_000)

    def count(hour: int, region: int) -> int:
        within = (found.seconds >= hour * 3600) & (found.seconds < (hour + 1) * 3600)
        return int(np.sum(within & (found.region == region)))

    hour = 8 * 0.75 * 3600
    assert count(5, 0) == pytest.approx(hour, rel=0.06)
    assert count(5, 1) == pytest.approx(hour / 3, rel=0.06)
    assert count(10, 0) == pytest.approx(3 * hour, rel=0.06)
    assert count(0, 0) == pytest.approx(2 * hour, rel=0.06)
    assert count(23, 0) == 0
    assert count(22, 1) == 0
    assert count(23, 1) == pytest.approx(2 * hour / 3, rel=0.06)
    assert count(24 + 5, 0) == pytest.approx(1.5 * hour, rel=0.06)
    assert count(48 + 5, 0) == pytest.approx(2 * 2.25 * hour, rel=0.05)


_KIND = {"share": 1, "prompt_tokens": 10, "output_tokens": 10}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"models": {"m": {"requests_per_second": -1}}},
         "day.yaml: models.m.requests_per_second: must be more than 0 and at most 1000000, got -1"),
        ({"hourly": []},
         "day.yaml: hourly: is not a field of traffic; did you mean 'hours'?"),
        ({"kinds": {"k": {**_KIND, "output_tokens": [[0, 5], [100, 4]]}}},
         "day.yaml: kinds.k.output_tokens: must have percentiles from 0 to 100, rising, with "
         "lengths that do not fall"),
        ({"kinds": {"k": {"share": 1, "output_tokens": 10}}},
         "day.yaml: kinds.k: must have either prompt_tokens or sessions, which states the prompts"),
        ({"bursts": [{"at_hours": 1, "minutes": 5, "factor": 2, "models": ["x"]}]},
         "day.yaml: must name models of this traffic in `bursts` (m)"),
        ({"kinds": {"k": {**_KIND, "prompt_tokens": 0}}},
         "day.yaml: kinds.k.prompt_tokens: must be 1 to 100000000 tokens"),
    ],
)  # fmt: skip
def test_a_pattern_that_breaks_a_rule_gets_one_line(
    changed: dict[str, object], message: str
) -> None:
    good = {"models": {"m": {"requests_per_second": 1}}, "kinds": {"k": _KIND}}

    with pytest.raises(InputError) as error:
        pattern_of({**good, **changed}, "day.yaml")

    assert str(error.value).startswith(message)
