"""A monthly budget that notifies people."""

import re
from typing import Any, NotRequired, TypedDict

import pulumi
from pulumi_gcp import billing

from gke_inference.base.inputs import under, whole
from gke_inference.catalogue.rungs import whole_number

MOST_CHANNELS = 5
"""Maximum notification channels of one budget (Cloud Billing: budgets)."""

_ACCOUNT = re.compile(r"[0-9A-F]{6}-[0-9A-F]{6}-[0-9A-F]{6}")
_TOPIC = re.compile(r"projects/[^/]+/topics/[^/]+")
_CURRENT, _FORECAST = "CURRENT_SPEND", "FORECASTED_SPEND"
_MOST_PERCENT = 1000


class BudgetArgs(TypedDict):
    """Inputs of `Budget`."""

    billing_account: str
    """Billing account in US dollars, such as `012345-6789AB-CDEF01`."""
    monthly_usd: int
    """Whole US dollars per calendar month, 1 or more, after credits."""
    project_number: str
    """Number of the project whose costs are counted."""
    title: str
    """Display name in the console."""
    alert_percents: NotRequired[list[int]]
    """Percentages of the amount at which people are notified, 1 to 1000. Default: 50, 90 and
    100."""
    billing_admins: NotRequired[bool]
    """Whether to also notify the account's administrators and users by email. Default: true."""
    channels: NotRequired[list[pulumi.Input[str]]]
    """Resource names of up to 5 email notification channels. Budgets support no other type."""
    forecast_percents: NotRequired[list[int]]
    """Percentages at which people are notified when the month is forecast to reach them. Default:
    100."""
    label: NotRequired[dict[str, str]]
    """One label and value that resources must have to be counted. Load balancers, networks and
    metrics carry none. Default: the whole project."""
    topic: NotRequired[pulumi.Input[str]]
    """Pub/Sub topic, `projects/P/topics/NAME`, that receives the budget status several times a day,
    for programs."""


class Budget(pulumi.ComponentResource):
    """A budget for a calendar month with alerts. It notifies people and stops no spending.

    The API `billingbudgets.googleapis.com` must be enabled, and the deploying identity needs
    `roles/billing.costsManager` on the billing account. Cost data is delayed by hours.
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
    """Return who is notified besides the account's users, or `None`."""
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
        message = f"must be an ID such as 012345-6789AB-CDEF01, got {args['billing_account']!r}"
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
            "label", f"must be one label: budgets support no more, got {given}"
        )
    channels = args.get("channels") or []
    if len(channels) > MOST_CHANNELS:
        message = f"must be at most {MOST_CHANNELS}, got {len(channels)}"
        raise pulumi.InputPropertyError("channels", message)
    topic = args.get("topic")
    if isinstance(topic, str) and not _TOPIC.fullmatch(topic):
        raise pulumi.InputPropertyError("topic", f"must be projects/P/topics/NAME, got {topic!r}")
    if not args.get("billing_admins", True) and not channels and topic is None:
        message = "must be true when nobody else is notified, got false"
        raise pulumi.InputPropertyError("billingAdmins", message)
