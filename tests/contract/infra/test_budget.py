"""The budget of a stack, from its words to the resource."""

import json
import math
from typing import Any

import pytest

from infra.deploy.observability import budget_args
from infra.estimate.stack_cost import stack_cost
from infra.plan import resolve
from infra.reading.load import parse, read
from infra.stack import Covers, Platform
from infra.stack.problems import StackError
from planner.amount import HOURS_PER_MONTH, total
from scripts.plan.cost_tables import budget_line
from tests.contract.infra.broken_stacks import edited
from tests.contract.infra.cloud import Deployed

TYPE = "gcp:billing/budget:Budget"
BUDGET = {"billing_account": "01A2B3-4C5D6E-7F8A9B", "monthly_usd": 900_000}
MAIL = {"kind": "email", "address": "team@example.com"}


def platform(
    receivers: dict[str, Any] | None = None, base: str = "prod", **budget: Any
) -> Platform:
    edits = [{"at": ["budget"], "value": {**BUDGET, **budget}}]
    edits.append({"at": ["monitoring", "notify"], "value": receivers or {"team": MAIL}})
    return parse(json.dumps(edited(base, edits)))


def told() -> Platform:
    """Return a stack whose own budget reports to one receiver and a topic; tests share it."""
    receivers = {"first": MAIL, "bills": MAIL}
    return platform(
        receivers, "local", covers="stack", notify=["bills"], topic="projects/p/topics/t"
    )


def test_a_stack_without_a_budget_makes_none_and_needs_no_api(deployed: Deployed) -> None:
    local = read("local")
    assert not deployed(local).all(TYPE)
    assert "billingbudgets.googleapis.com" not in resolve(local).project.services
    assert "billingbudgets.googleapis.com" in resolve(read("prod")).project.services


def test_production_counts_its_whole_project(deployed: Deployed) -> None:
    made = deployed(read("prod")).one(TYPE).inputs
    assert "labels" not in made["budgetFilter"], "load balancers and logs carry none"
    assert made["budgetFilter"]["projects"] == ["projects/141421356237"]


def test_a_budget_of_the_stack_counts_what_carries_its_label(deployed: Deployed) -> None:
    records = deployed(told())
    made = records.one(TYPE).inputs
    assert made["budgetFilter"]["labels"] == {"env": "local"}
    assert made["budgetFilter"]["projects"] == ["projects/314159265358"]
    assert made["amount"]["specifiedAmount"]["units"] == "900000"
    labelled = records.all("gcp:container/cluster:Cluster")
    assert {seen.inputs["resourceLabels"]["env"] for seen in labelled} == {"local"}


def test_a_budget_of_the_project_has_no_label() -> None:
    found = platform(covers="project")
    assert found.budget is not None
    args = budget_args(found.budget, resolve(found).project, "acme", [], None)
    assert "label" not in args


def test_receivers_of_alerts_are_told_by_their_names(deployed: Deployed) -> None:
    records = deployed(told())
    rule = records.one(TYPE).inputs["allUpdatesRule"]
    channels = [
        seen.name for seen in records.all("gcp:monitoring/notificationChannel:NotificationChannel")
    ]
    assert sorted(channels) == ["alerts-bills", "alerts-first"]  # registered side by side
    assert len(rule["monitoringNotificationChannels"]) == 1
    assert "bills" in rule["monitoringNotificationChannels"][0]
    assert rule["pubsubTopic"] == "projects/p/topics/t"


@pytest.mark.parametrize("discount", [0, 50])
def test_a_discount_lowers_the_least_budget(discount: int) -> None:
    with pytest.raises(StackError, match="at minimum") as refused:
        platform(monthly_usd=1000, discount_percent=discount)
    least = int(str(refused.value).split("at least ")[1].split(", ")[0].replace(",", ""))
    platform(monthly_usd=least, discount_percent=discount)
    assert (f"with {discount} % off list prices" in str(refused.value)) == bool(discount)


def test_a_budget_of_the_least_that_a_refusal_says_is_taken_and_a_dollar_less_is_not() -> None:
    for discount in (0, 7, 28):  # exact costs would be rounded down, down and up
        with pytest.raises(StackError) as refused:
            platform(monthly_usd=1000, discount_percent=discount)
        least = int(str(refused.value).split("at least ")[1].split(", ")[0].replace(",", ""))
        platform(monthly_usd=least, discount_percent=discount)
        with pytest.raises(StackError, match=f"at least {least:,}, "):
            platform(monthly_usd=least - 1, discount_percent=discount)


def test_a_budget_of_the_project_counts_what_carries_no_label_too() -> None:
    found = stack_cost(resolve(platform()))
    labelled = found.counted(Covers.STACK, "minimum")
    unlabelled = [found.by_group[name].total("minimum") for name in ("network", "observability")]
    counted = labelled + total(unlabelled)
    assert found.counted(Covers.PROJECT, "minimum").value == pytest.approx(counted.value)
    least = math.ceil(labelled.value * HOURS_PER_MONTH)
    platform(monthly_usd=least)
    with pytest.raises(StackError, match="what the stack costs a month at minimum"):
        platform(monthly_usd=least, covers="project")


def test_cost_says_how_much_of_the_budget_the_stack_takes() -> None:
    stack = platform(monthly_usd=2_000_000, discount_percent=50)
    found = stack_cost(resolve(stack))
    assert stack.budget is not None
    share = found.counted(stack.budget.covers, "minimum").value * HOURS_PER_MONTH / 2 / 2_000_000
    said = budget_line(stack.budget, found)
    assert said.startswith(f"budget: $2,000,000 a month; the stack uses {share:.0%} at minimum, ")
    assert " expected, " in said
    assert said.endswith("50 % off list prices")
