"""A budget: who is notified when a month costs more than planned."""

import re
from typing import Any, NotRequired, TypedDict

import pulumi
from pulumi_gcp import billing

from gke_inference.base.inputs import under, whole
from gke_inference.catalogue.rungs import whole_number

MOST_CHANNELS = 5
"""Notification channels of one budget (Cloud Billing: budgets)."""

_ACCOUNT = re.compile(r"[0-9A-F]{6}-[0-9A-F]{6}-[0-9A-F]{6}")
_TOPIC = re.compile(r"projects/[^/]+/topics/[^/]+")
_CURRENT, _FORECAST = "CURRENT_SPEND", "FORECASTED_SPEND"
_MOST_PERCENT = 1000


class BudgetArgs(TypedDict):
    """Inputs of `Budget`."""

    billing_account: str
    """Billing account that pays, such as `012345-6789AB-CDEF01`; it must be kept in US dollars."""
    monthly_usd: int
    """Whole US dollars a calendar month, 1 or more, after credits."""
    project_number: str
    """Number of the project whose costs are counted."""
    title: str
    """Its name in the console."""
    alert_percents: NotRequired[list[int]]
    """Shares of the amount at which people are notified, 1 to 1000. Default 50, 90 and 100."""
    billing_admins: NotRequired[bool]
    """Whether the account's administrators and users are notified by mail, too. Default yes."""
    channels: NotRequired[list[pulumi.Input[str]]]
    """Resource names of notification channels of the type e-mail, 5 at most: budgets know no other
    type."""
    forecast_percents: NotRequired[list[int]]
    """Shares at which people are notified when the month is forecast to reach them. Default 100."""
    label: NotRequired[dict[str, str]]
    """One label and its value: only what carries it is counted. Default: the whole project. Load
    balancers, networks and metrics carry none."""
    topic: NotRequired[pulumi.Input[str]]
    """Pub/Sub topic, `projects/P/topics/NAME`, that is sent the state of the budget several times a
    day, for programs."""


class Budget(pulumi.ComponentResource):
    """A budget for a calendar month with alerts; it tells people, and stops nothing.

    The API `billingbudgets.googleapis.com` must be on, and who deploys needs
    `roles/billing.costsManager` on the billing account. Costs arrive hours late.
    """

    budget_name: pulumi.Output[str]
    """`billingAccounts/A/budgets/ID`."""

    def __init__(
        self, name: str, args: BudgetArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:Budget", name, {}, opts)
        amount = whole(args, "monthly_usd", 0, least=1, most=1_000_000_000)
        _check(args)
        budget = billing.Budget(
            name,
            all_updates_rule=_receivers(args),
            amount={"specified_amount": {"currency_code": "USD", "units": str(amount)}},
            billing_account=args["billing_account"],
            budget_filter=_filter(args),
            display_name=args["title"],
            threshold_rules=[
                *_rules(_percents(args, "alert_percents", [50, 90, 100]), _CURRENT),
                *_rules(_percents(args, "forecast_percents", [100]), _FORECAST),
            ],
            opts=under(self),
        )
        self.budget_name = budget.name
        self.register_outputs({"budgetName": self.budget_name})


def _receivers(args: BudgetArgs) -> "billing.BudgetAllUpdatesRuleArgsDict | None":
    """Returns who is notified beside the account's own people; `None` where nobody is."""
    channels, topic = args.get("channels") or [], args.get("topic")
    if not channels and topic is None:
        return None
    rule: billing.BudgetAllUpdatesRuleArgsDict = {
        "disable_default_iam_recipients": not args.get("billing_admins", True)
    }
    if channels:
        rule["monitoring_notification_channels"] = channels
    if topic is not None:
        rule["pubsub_topic"] = topic
    return rule


def _filter(args: BudgetArgs) -> "billing.BudgetBudgetFilterArgsDict":
    found: billing.BudgetBudgetFilterArgsDict = {
        "calendar_period": "MONTH",
        "credit_types_treatment": "INCLUDE_ALL_CREDITS",
        "projects": [f"projects/{args['project_number']}"],
    }
    if label := args.get("label"):
        found["labels"] = dict(label)
    return found


def _rules(percents: list[int], basis: str) -> "list[billing.BudgetThresholdRuleArgsDict]":
    return [
        {"spend_basis": basis, "threshold_percent": percent / 100} for percent in sorted(percents)
    ]


def _percents(args: BudgetArgs, field: str, default: list[int]) -> list[int]:
    given: Any = args.get(field)
    return default if given is None else [whole_number(each) or 0 for each in given]


def _check(args: BudgetArgs) -> None:
    if not _ACCOUNT.fullmatch(args["billing_account"]):
        message = f"must be like 012345-6789AB-CDEF01, got {args['billing_account']!r}"
        raise pulumi.InputPropertyError("billingAccount", message)
    for field, path in (
        ("alert_percents", "alertPercents"),
        ("forecast_percents", "forecastPercents"),
    ):
        found = _percents(args, field, [])
        if any(not 1 <= each <= _MOST_PERCENT for each in found) or len(set(found)) != len(found):
            message = f"must be different shares, 1 to {_MOST_PERCENT}, got {found}"
            raise pulumi.InputPropertyError(path, message)
    if len(args.get("label") or {}) > 1:
        given = ", ".join(sorted(args.get("label") or {}))
        raise pulumi.InputPropertyError(
            "label", f"must be one label, budgets take no more, got {given}"
        )
    channels = args.get("channels") or []
    if len(channels) > MOST_CHANNELS:
        message = f"must be at most {MOST_CHANNELS}, got {len(channels)}"
        raise pulumi.InputPropertyError("channels", message)
    topic = args.get("topic")
    if isinstance(topic, str) and not _TOPIC.fullmatch(topic):
        raise pulumi.InputPropertyError("topic", f"must be projects/P/topics/NAME, got {topic!r}")
    if not args.get("billing_admins", True) and not channels and topic is None:
        message = "must be left out where nobody else is notified, got false"
        raise pulumi.InputPropertyError("billingAdmins", message)
