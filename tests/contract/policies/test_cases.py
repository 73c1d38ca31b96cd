"""Each policy answers its cases: `cases/<subject>/<policy>.yaml`.

A case has `props` (or `pod`, `container`, `resources`), and where it matters `type`, `stack` and
`config`. `finds` is every message of the policy, `becomes` what remediation makes of the
properties. `(known after up)` is a value that a preview does not know.
"""

from pathlib import Path

import pytest
import yaml

from policies.framework.rule import ResourceRule
from policies.rules import policies
from tests.contract.policies.runner import UNKNOWN, answer, remedied

FOLDER = Path(__file__).parent / "cases"
FILES = {file.stem: file for file in FOLDER.glob("*/*.yaml")}
KINDS = ("compliant", "violating", "missing", "unknown", "remedied")


def load(name):
    return yaml.load(FILES[name].read_text(), Loader=yaml.CSafeLoader)


CASES = {name: load(name) for name in sorted(FILES)}


def cases(*kinds):
    return [
        pytest.param(name, {"type": document.get("type"), **case}, id=f"{name}: {kind} {index}")
        for name, document in CASES.items()
        for kind in kinds
        for index, case in enumerate(document.get(kind, ()), 1)
    ]


def test_every_policy_has_a_file_of_cases_in_its_subject_and_every_file_its_policy():
    subjects = {name: file.parent.name for name, file in FILES.items()}
    assert subjects == {name: listed.subject for name, listed in policies().items()}


@pytest.mark.parametrize("name", sorted(policies()))
def test_every_policy_has_a_compliant_case_and_one_that_it_refuses(name):
    document = CASES[name]
    assert set(document) <= {"type", *KINDS}
    assert document.get("compliant")
    assert document.get("violating") or document.get("missing")


def test_every_policy_that_remediates_has_cases_of_it():
    remediating = {name for name, each in policies().items() if each.rule.level == "remediating"}
    assert {name for name, document in CASES.items() if "remedied" in document} == remediating


@pytest.mark.parametrize(("name", "case"), cases("compliant"))
def test_a_compliant_case_has_no_findings(name, case):
    assert answer(policies()[name].rule, case) == []


@pytest.mark.parametrize(("name", "case"), cases("violating", "missing"))
def test_a_violating_case_has_exactly_the_findings_it_lists(name, case):
    expected = [case["finds"]] if isinstance(case["finds"], str) else case["finds"]
    assert expected
    assert answer(policies()[name].rule, case) == expected


@pytest.mark.parametrize(("name", "case"), cases("unknown"))
def test_a_value_that_a_preview_does_not_know_is_neither_compliant_nor_violating(name, case):
    assert answer(policies()[name].rule, case) == UNKNOWN


@pytest.mark.parametrize(("name", "case"), cases("remedied"))
def test_a_remediating_policy_changes_what_it_refuses_and_nothing_else(name, case):
    rule = policies()[name].rule
    assert isinstance(rule, ResourceRule)
    assert remedied(rule, case) == case["becomes"]
