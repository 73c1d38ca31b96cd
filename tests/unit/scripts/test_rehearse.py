"""The command `rehearse`: options in one line, faults as steps, dollars at list price."""

import pytest

from scripts.rehearse.command import _rates
from scripts.rehearse.faults import with_faults
from scripts.rehearse.result import spent_by
from scripts.terminal.console import CommandError
from simulator.rehearsal.run import Bought, Rehearsal
from simulator.tests.unit.rehearsal.platforms import L4, Steady, platform


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("llm", "--rate: must be MODEL=RATE with a rate above 0, got 'llm'"),
        ("llm=-1", "--rate: must be MODEL=RATE with a rate above 0, got 'llm=-1'"),
        ("gpt=1", "--rate: must be a model of llm, got 'gpt'"),
    ],
)
def test_a_wrong_rate_is_refused_with_option_rule_and_value(given, message):
    with pytest.raises(CommandError) as error:
        _rates([given], ["llm"])
    assert str(error.value) == message


def test_faults_happen_in_the_order_of_their_times():
    found = with_faults(platform(), ["zone-loss@01:00", "spot-preemption"])
    at, moments = 0.0, []
    for step in found.steps:
        at += step.after or 0.0
        moments.append((at, step.title))
    assert moments == sorted(moments, key=lambda each: each[0])
    assert (600.0, "spot machines are preempted") in moments
    assert (4200.0, "the zones *-a are down") in moments


@pytest.mark.parametrize("given", ["no-such-scenario", "/tmp/no-such-file.yaml"])
def test_a_fault_that_does_not_exist_is_refused(given):
    with pytest.raises(CommandError, match=r"^--fault: "):
        with_faults(platform(), [given])


def test_dollars_are_the_list_price_of_the_time_of_machines():
    found = Rehearsal(platform(), Steady(1.0, 1), engines=None)  # type: ignore[arg-type]
    region = "us-central1"
    found.machines[Bought("llm", region, "on-demand", L4, "nvidia-l4")] = 7200.0
    found.machines[Bought("", region, "on-demand", L4, "nvidia-l4")] = 3600.0
    found.team_tokens["llm", "a"], found.team_tokens["llm", "b"] = 300, 100
    spent = spent_by(found)
    assert spent.total == pytest.approx(3 * 1.00041)
    assert spent.by_model == pytest.approx({"llm": 2 * 1.00041, "no model": 1.00041})
    assert spent.by_team == pytest.approx(
        {"a": 1.5 * 1.00041, "b": 0.5 * 1.00041, "no team": 1.00041}
    )
