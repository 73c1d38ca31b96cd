"""A monthly budget that notifies people."""

from collections.abc import Iterator, Sequence
from typing import Annotated, NotRequired, TypedDict

import pulumi
from pulumi_gcp import billing
from pydantic import Field

from gke_inference.base.checked import checked, keep
from gke_inference.base.inputs import under
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import repeated
from gke_inference.settings.fields import BillingAccount, TopicName

from .rules import check_recipients
from .settings import ALERT_PERCENT, FORECAST_PERCENT, MAX_CHANNELS, BudgetUsd, Percent

_CURRENT, _FORECAST = "CURRENT_SPEND", "FORECASTED_SPEND"


class BudgetArgs(TypedDict):
    """Inputs of `Budget`."""

    billing_account: BillingAccount
    """Billing account in US dollars, such as `012345-6789AB-CDEF01`."""
    monthly_usd: BudgetUsd
    """Whole US dollars per calendar month, after credits."""
    project_number: str
    """Number of the project whose costs are counted."""
    title: str
    """Display name in the console."""
    alert_percents: NotRequired[list[Percent]]
    """Percentages of the amount at which people are notified. Default: 50, 90 and 100."""
    billing_admins: NotRequired[bool]
    """Whether to also notify the account's administrators and users by email. Default: true."""
    channels: NotRequired[Annotated[list[pulumi.Input[str]], Field(max_length=MAX_CHANNELS)]]
    """Resource names of up to 5 email notification channels. Budgets support no other type."""
    forecast_percents: NotRequired[list[Percent]]
    """Percentages at which people are notified when the month is forecast to reach them. Default:
    100."""
    label: NotRequired[Annotated[dict[str, str], Field(max_length=1)]]
    """One label and value that resources must have to be counted. Load balancers, networks and
    metrics carry none. Default: the whole project."""
    topic: NotRequired[pulumi.Input[TopicName]]
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
        args = checked(BudgetArgs, args)
        keep(_problems(args))
        alerts = args.get("alert_percents", ALERT_PERCENT)
        amount = str(args["monthly_usd"])
        forecasts = args.get("forecast_percents", FORECAST_PERCENT)
        budget = billing.Budget(
            name,
            all_updates_rule=_receivers(args),
            amount={"specified_amount": {"currency_code": "USD", "units": amount}},
            billing_account=args["billing_account"],
            budget_filter=_filter(args),
            display_name=args["title"],
            threshold_rules=[
                *_rules(alerts, _CURRENT),
                *_rules(forecasts, _FORECAST),
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


def _rules(percents: Sequence[int], basis: str) -> "list[billing.BudgetThresholdRuleArgsDict]":
    return [
        {"spend_basis": basis, "threshold_percent": percent / 100} for percent in sorted(percents)
    ]


def _problems(args: BudgetArgs) -> Iterator[InputError]:
    yield from repeated("alert_percents", args.get("alert_percents", ()), "a percentage")
    yield from repeated("forecast_percents", args.get("forecast_percents", ()), "a percentage")
    yield from check_recipients(
        "",
        "channels",
        billing_admins=args.get("billing_admins", True),
        has_channels=bool(args.get("channels")),
        has_topic="topic" in args,
    )
