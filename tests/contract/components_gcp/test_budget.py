"""A month's budget, and who is told."""

from typing import Any

import pulumi
import pytest

from gke_inference.observability.budget import Budget

TYPE = "gcp:billing/budget:Budget"
ARGS: dict[str, Any] = {
    "billing_account": "01A2B3-4C5D6E-7F8A9B",
    "monthly_usd": 5000.0,  # as other languages send it
    "project_number": "141421356237",
    "title": "acme prod",
}
CHANNEL = "projects/p/notificationChannels/1"


def build(recorder, **changes):
    args: Any = {**ARGS, **changes}
    recorder.run(lambda: Budget("budget", args).budget_name)
    return recorder.one(TYPE).inputs


def test_a_month_of_the_project_is_counted_in_whole_dollars(recorder):
    made = build(recorder)
    assert made["amount"] == {"specifiedAmount": {"currencyCode": "USD", "units": "5000"}}
    assert made["budgetFilter"] == {
        "calendarPeriod": "MONTH",
        "creditTypesTreatment": "INCLUDE_ALL_CREDITS",
        "projects": ["projects/141421356237"],
    }
    assert made["displayName"] == "acme prod"
    assert "allUpdatesRule" not in made  # the account's own people are told


def test_people_are_told_at_half_at_nine_tenths_at_all_of_it_and_when_it_is_foreseen(recorder):
    rules = [
        (each["spendBasis"], each["thresholdPercent"]) for each in build(recorder)["thresholdRules"]
    ]
    current, forecast = "CURRENT_SPEND", "FORECASTED_SPEND"
    assert rules == [(current, 0.5), (current, 0.9), (current, 1.0), (forecast, 1.0)]


def test_shares_can_be_chosen_and_left_out(recorder):
    made = build(recorder, alert_percents=[120.0, 80.0], forecast_percents=[])
    assert [each["thresholdPercent"] for each in made["thresholdRules"]] == [0.8, 1.2]


def test_only_what_carries_a_label_is_counted_where_one_is_given(recorder):
    assert build(recorder, label={"env": "prod"})["budgetFilter"]["labels"] == {"env": "prod"}


def test_channels_and_a_topic_are_told_beside_the_accounts_people(recorder):
    topic = "projects/p/topics/bills"
    made = build(recorder, channels=[CHANNEL], topic=topic)["allUpdatesRule"]
    assert made == {
        "disableDefaultIamRecipients": False,
        "monitoringNotificationChannels": [CHANNEL],
        "pubsubTopic": topic,
    }


def test_the_accounts_people_can_be_left_out_where_others_are_told(recorder):
    made = build(recorder, channels=[CHANNEL], billing_admins=False)
    assert made["allUpdatesRule"]["disableDefaultIamRecipients"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"billing_account": "acme"},
            "billingAccount.*must be a billing account such as 012345-6789AB-CDEF01",
        ),
        ({"monthly_usd": 0}, "monthlyUsd.*must be 1 to"),
        ({"monthly_usd": 12.5}, "monthlyUsd.*got 12.5"),
        ({"alert_percents": [0]}, "alertPercents\\[0\\].*must be 1 to 1000, got 0"),
        (
            {"forecast_percents": [50, 50]},
            "forecastPercents\\[1\\].*must not repeat a percentage, got 50 twice",
        ),
        ({"label": {"env": "prod", "team": "a"}}, "label.*must have at most 1 entry, got 2"),
        ({"channels": [CHANNEL] * 6}, "channels.*must have at most 5 entries, got 6"),
        ({"topic": "bills"}, "topic.*must be projects/PROJECT/topics/TOPIC"),
        ({"billing_admins": False}, "billingAdmins.*channels or topic must be set.*got false"),
    ],
)
def test_what_a_budget_cannot_be_is_refused(recorder, change, message):
    with pytest.raises(pulumi.InputPropertyError, match=message):
        build(recorder, **change)
