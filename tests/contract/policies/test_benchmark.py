"""Policies name the recommendations that they implement, and every recommendation is answered."""

from pathlib import Path

import pytest

from policies.benchmark.recommendations import joined, recommendations
from policies.framework.registry import Listed
from policies.framework.rule import Policy

SECTIONS = {"1.1": "Keys"}


def claiming(*numbers):
    rule = Policy(name="locked", description="Doors are locked.", cis=numbers)
    return {"locked": Listed(rule, "serving", Path("locked.py"))}


def answered(rules=None, **answer):
    entry = {"number": "1.1.1", "title": "Doors are locked", **answer}
    data = {"sections": SECTIONS, "recommendations": [entry]}
    return joined(data, rules or {})["1.1.1"]


def test_a_recommendation_names_the_policies_that_claim_it():
    found = answered(claiming("1.1.1"))
    assert (found.status, found.policies, found.section) == ("met", ("locked",), "Keys")


def test_a_number_that_the_benchmark_does_not_have_is_refused():
    with pytest.raises(ValueError, match=r"^locked\.cis: must be in cis_gke\.yaml, got '9\.9\.9'$"):
        answered(claiming("1.1.1", "9.9.9"))


def test_a_recommendation_that_a_policy_meets_in_part_is_open():
    assert answered(claiming("1.1.1"), open="windows").status == "open"


@pytest.mark.parametrize(
    ("rules", "answer"),
    [({}, {}), (claiming("1.1.1"), {"not_applicable": "no doors"})],
    ids=["no answer", "two answers"],
)
def test_a_recommendation_has_one_answer(rules, answer):
    with pytest.raises(ValueError, match=r"^cis_gke\.yaml: 1\.1\.1 must have policies"):
        answered(rules, **answer)


def test_every_recommendation_of_the_benchmark_is_answered_once():
    found = recommendations()
    assert len(found) == 57
    assert found["5.10.4"].status == "met"
