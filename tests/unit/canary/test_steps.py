"""The steps of a canary, with requests that a test makes up."""

import pytest

from scripts.canary.comparison import Rule, Share
from scripts.canary.steps import Canary, Measurements, NotMeasurable, Outcome, Settings, check_steps

RULE = Rule(alpha=0.05, margin_percent=1.0, least_requests=100)
SETTINGS = Settings((5, 50, 100), 60, 300, 20, RULE)


class Requests:
    """Requests that come at a rate, and of which some are bad."""

    def __init__(self, percent_bad=0.0, per_look=100):
        self.share, self.percent_bad, self.per_look = 0, percent_bad, per_look
        self.looks = 0
        self.told: list[str] = []
        self.given: list[int] = []

    def begin(self):
        self.looks = 0

    def look(self):
        self.looks += 1
        total = self.per_look * self.looks
        canary = total * self.share // 100
        bad = round(canary * self.percent_bad / 100)
        return Measurements({"errors": (Share(bad, canary), Share(0, total - canary))})

    def set_percent(self, percent):
        self.share = percent
        self.given.append(percent)

    def run(self, settings=SETTINGS):
        self.slept: list[float] = []
        return Canary(
            settings, self, self.set_percent, sleep=self.slept.append, tell=self.told.append
        ).run()


def test_a_canary_that_is_not_worse_gets_every_share():
    requests = Requests(per_look=1000)
    assert requests.run() is Outcome.PASSED
    assert requests.given == [5, 50, 100]
    assert sum(requests.slept) == 3 * 60


def test_at_100_percent_it_is_compared_with_the_stable_version_of_the_step_before():
    requests = Requests(per_look=1000)
    original = requests.set_percent

    def break_at_100(percent):
        original(percent)
        requests.percent_bad = 10.0 if percent == 100 else 0.0

    requests.set_percent = break_at_100
    assert requests.run() is Outcome.ROLLED_BACK
    assert requests.given == [5, 50, 100, 0]


def test_a_worse_canary_is_rolled_back_at_the_first_look_that_shows_it():
    requests = Requests(percent_bad=100, per_look=2000)
    assert requests.run() is Outcome.ROLLED_BACK
    assert requests.given == [5, 0]
    assert requests.slept == [20]
    assert requests.told[-2:] == ["5%: worse: errors; rolling back", "0%: rolled back"]


def test_a_step_waits_for_requests_and_gives_up_in_the_end():
    requests = Requests(per_look=300)  # 15 of each look are the canary's
    assert requests.run() is Outcome.PASSED
    assert requests.slept[:7] == [20] * 7  # seven looks until it has had 100
    few = Requests(per_look=20)
    assert few.run() is Outcome.ROLLED_BACK
    assert few.given == [5, 0]
    assert "fewer than 100 requests to compare in 300 s" in few.told[-2]


def test_a_stable_version_with_few_requests_does_not_keep_a_step_waiting():
    requests = Requests(percent_bad=100, per_look=150)
    settings = Settings((90,), 60, 300, 20, RULE)
    assert requests.run(settings) is Outcome.ROLLED_BACK
    assert requests.slept == [20]  # 135 against 15


def test_looks_that_fail_are_taken_again_and_what_nobody_sees_is_rolled_back_in_the_end():
    requests = Requests(per_look=1000)
    original, failures = requests.look, [NotMeasurable("c: timed out")] * 2

    def look():
        if failures:
            raise failures.pop()
        return original()

    requests.look = look
    assert requests.run() is Outcome.PASSED
    assert "5%: cannot see: c: timed out" in requests.told

    def no_begin():
        raise NotMeasurable("c: connection refused")

    blind = Requests()
    blind.begin = no_begin
    assert blind.run() is Outcome.ROLLED_BACK
    assert blind.given == [5, 0]
    assert sum(blind.slept) == SETTINGS.patience_seconds


def test_a_run_knows_which_share_is_live_when_a_change_fails():
    requests = Requests(per_look=1000)
    original = requests.set_percent

    def fail_at_50(percent):
        if percent == 50:
            raise RuntimeError
        original(percent)

    tried = Canary(SETTINGS, requests, fail_at_50, sleep=lambda _: None, tell=requests.told.append)
    with pytest.raises(RuntimeError):
        tried.run()
    assert (tried.share, tried.tried) == (5, 50)


def test_without_anything_to_measure_nothing_is_passed():
    requests = Requests()
    requests.look = lambda: Measurements({})
    assert requests.run() is Outcome.ROLLED_BACK


def test_the_looks_of_a_run_share_its_probability_of_a_false_alarm():
    assert SETTINGS.looks == 15
    assert SETTINGS.rule_of(1).alpha == pytest.approx(0.05 / 45)
    assert SETTINGS.rule_of(2).alpha == pytest.approx(0.05 / 90)


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ((), "must have one step or more"),
        ((0, 5), "must be percentages from 1 to 100"),
        ((5, 101), "must be percentages from 1 to 100"),
        ((50, 5), "must rise from step to step"),
        ((5, 5), "must rise from step to step"),
        (
            (100,),
            "must begin below 100: at 100 the stable version has no requests to compare with",
        ),
        ((5, 100), ""),
    ],
)
def test_shares_that_make_no_sense_are_refused(steps, problem):
    assert check_steps(steps) == problem
