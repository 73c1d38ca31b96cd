"""Rules about the budget: not below the minimum cost, and receivers that can be notified."""

import math
from collections.abc import Iterator

from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.problems import join, repeated, suggest
from gke_inference.observability.rules import check_recipients
from infra.estimate.stack_cost import stack_cost
from infra.plan import Plan
from infra.stack import Budget, Covers, Platform, ReceiverKind
from planner.amount import HOURS_PER_MONTH

_ROUNDING = 1e-6
"""Rounding error of price sums in US dollars, since prices are binary fractions."""

_LABELLED = "machines, clusters and storage of the stack cost"


def check_budget(platform: Platform) -> Iterator[InputError]:
    """Yield the problems of a platform's budget."""
    budget = platform.budget
    if budget is None:
        return
    yield from _check_notify(platform, budget)
    yield from repeated("budget.alert_percent", budget.alert_percent, "a percentage")
    yield from repeated("budget.forecast_percent", budget.forecast_percent, "a percentage")
    yield from check_recipients(
        "budget",
        "notify",
        billing_admins=budget.billing_admins,
        has_channels=bool(budget.notify),
        has_topic=budget.topic is not None,
    )


def _check_notify(platform: Platform, budget: Budget) -> Iterator[InputError]:
    receivers = platform.monitoring.notify
    for at, name in enumerate(budget.notify):
        where = join("budget", "notify", at)
        if name not in receivers:
            names = ", ".join(receivers) or "none"
            message = f"must be a receiver of 'monitoring.notify' ({names})"
            yield InputError(where, message, name, suggest(name, receivers))
        elif receivers[name].kind is not ReceiverKind.EMAIL:
            kind = receivers[name].kind.value
            yield InputError(where, "must be of kind email: budgets support only email", Bare(kind))
    yield from repeated("budget.notify", budget.notify, "a receiver")


def check_amount(plan: Plan) -> Iterator[InputError]:
    """Yield a budget that every month would exceed, which makes its alerts useless.

    Args:
        plan: A stack without other problems.
    """
    budget = plan.platform.budget
    if budget is None:
        return
    cost = stack_cost(plan).counted(budget.covers, "minimum")
    listed = cost.value * HOURS_PER_MONTH
    exact = listed * (100 - budget.discount_percent) / 100
    least = math.ceil(exact - _ROUNDING)  # budgets are whole dollars
    if budget.monthly_usd < least:
        subject = "the stack costs" if budget.covers is Covers.PROJECT else _LABELLED
        what = f"{least:,}, what {subject} a month at minimum"
        discount = (
            f" with {budget.discount_percent} % off list prices"
            if budget.discount_percent
            else " at list prices ('discount_percent' lowers them)"
        )
        message = f"must be at least {what}{discount}"
        yield InputError(join("budget", "monthly_usd"), message, budget.monthly_usd)
