"""Each invariant answers its cases: `cases/<invariant>.yaml`.

A case is a change of `sound.yaml`, a platform that breaks nothing. `finds` is every finding of the
invariant: object, field, reason and value.
"""

from pathlib import Path

import pytest
import yaml

from policies.checker.checker import check_objects
from policies.checker.rules import invariants
from policies.framework.finding import Verdict
from tests.contract.invariants.conftest import changed, source

FOLDER = Path(__file__).parent / "cases"
ALL = [listed.rule for listed in invariants().values()]
CASES = {
    file.stem: yaml.load(file.read_text(), yaml.CSafeLoader)
    for file in sorted(FOLDER.glob("*.yaml"))
}
NEVER_BROKEN = {"images-have-digests"}
"""Invariants that only report that they cannot decide."""


def cases(kind):
    return [
        pytest.param(rule, change or {}, id=f"{rule}: {name}")
        for rule, document in CASES.items()
        for name, change in document.get(kind, {}).items()
    ]


def report(sound, change):
    return check_objects([source(changed(sound, change), change.get("resources"))], ALL)


def lines(findings):
    return [f"{each.object}: {each.message}" for each in findings]


def test_every_invariant_has_a_file_of_cases_and_every_file_its_invariant():
    assert set(CASES) == set(invariants())
    assert len(invariants()) >= 50


@pytest.mark.parametrize("rule", sorted(invariants()))
def test_every_invariant_has_a_compliant_case_and_a_violating_one(rule):
    document = CASES[rule]
    assert set(document) <= {"compliant", "violating", "unknown"}
    assert document.get("compliant")
    assert document.get("unknown" if rule in NEVER_BROKEN else "violating")


def test_every_invariant_says_what_must_hold_and_where_that_comes_from():
    for rule in ALL:
        assert rule.description.endswith("."), rule.name
        assert rule.reference, rule.name


def test_the_sound_platform_is_sound(sound):
    found = report(sound, {})
    assert found.of(Verdict.BROKEN) == []
    assert {each.rule for each in found.findings} == {"bucket-identity", "images-have-digests"}


@pytest.mark.parametrize(("rule", "change"), cases("violating"))
def test_a_violating_change_breaks_its_invariant_as_the_case_says_and_no_other(sound, rule, change):
    found = report(sound, change).of(Verdict.BROKEN)
    assert {each.rule for each in found} == {rule}
    assert lines(found) == change["finds"]
    assert all(each.fix for each in found)


@pytest.mark.parametrize(("rule", "change"), cases("compliant"))
def test_a_compliant_change_breaks_nothing(sound, rule, change):
    found = report(sound, change)
    assert found.of(Verdict.BROKEN) == []
    assert [each for each in found.findings if each.rule == rule] == []


@pytest.mark.parametrize(("rule", "change"), cases("unknown"))
def test_an_invariant_that_cannot_decide_says_what_is_missing(sound, rule, change):
    found = report(sound, change)
    assert found.of(Verdict.BROKEN) == []
    own = [each for each in found.of(Verdict.UNKNOWN) if each.rule == rule]
    assert lines(own) == change["finds"]
    assert all(each.fix for each in own)
