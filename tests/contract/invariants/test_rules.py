"""Each rule: what it finds, what it lets pass, where it says that it cannot decide."""

from pathlib import Path

import pytest
import yaml

from policies.invariants.finding import Verdict
from policies.invariants.judge import judge
from policies.invariants.rules import invariants
from tests.contract.invariants.conftest import changed, source

FOLDER = Path(__file__).parent / "rules"
ALL = [invariant for _, invariant in invariants().values()]


def cases(colour):
    found = []
    for file in sorted(FOLDER.glob("*.yaml")):
        changes = yaml.safe_load(file.read_text()).get(colour, {})
        found += [
            pytest.param(file.stem, change, id=f"{file.stem}: {name}")
            for name, change in changes.items()
        ]
    return found


def report(sound, change):
    return judge([source(changed(sound, change), change.get("resources"))], ALL)


def test_every_rule_has_a_fixture_and_every_fixture_its_rule():
    assert {file.stem for file in FOLDER.glob("*.yaml")} == set(invariants())


def test_there_are_rules_enough_and_each_has_a_red_and_a_green_case():
    assert len(invariants()) >= 50
    red = {case.values[0] for case in cases("red")}
    assert set(invariants()) - red == {"images-have-digests"}  # its verdict is only "unknown"
    assert {case.values[0] for case in cases("green")} == set(invariants())


def test_every_rule_says_what_must_hold_and_where_that_comes_from():
    for name, (_, invariant) in invariants().items():
        assert invariant.holds.endswith("."), name
        assert invariant.source, name


def test_the_sound_platform_is_sound(sound):
    found = report(sound, {})
    assert found.of(Verdict.BROKEN) == []
    assert {each.rule for each in found.findings} == {"bucket-identity", "images-have-digests"}


@pytest.mark.parametrize(("rule", "change"), cases("red"))
def test_a_change_breaks_its_rule_and_no_other(sound, rule, change):
    found = report(sound, change).of(Verdict.BROKEN)
    assert {each.rule for each in found} == {rule}, found
    for each in found:
        assert each.field, each
        assert each.why, each
        assert each.fix, each


@pytest.mark.parametrize(("rule", "change"), cases("green"))
def test_a_change_that_agrees_breaks_nothing(sound, rule, change):
    found = report(sound, change)
    assert found.of(Verdict.BROKEN) == []
    assert [each for each in found.findings if each.rule == rule] == []


@pytest.mark.parametrize(("rule", "change"), cases("unknown"))
def test_a_rule_that_lacks_something_says_what_it_lacks(sound, rule, change):
    found = report(sound, change)
    assert found.of(Verdict.BROKEN) == []
    mine = [each for each in found.of(Verdict.UNKNOWN) if each.rule == rule]
    assert mine
    assert all(each.why and each.fix for each in mine)
