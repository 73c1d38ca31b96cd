"""Risks of a stack on the report page."""

from dataclasses import replace
from datetime import date

import pytest

from infra.estimate.cold_starts import starts
from infra.estimate.quota_check import Limit, standings
from infra.estimate.quota_needs import needs
from infra.estimate.stack_cost import served, stack_cost
from infra.estimate.unit_costs import unit_costs
from infra.plan import resolve
from planner.choice.cost import bill
from policies.checker.checker import Report
from policies.framework.finding import Finding, Verdict
from scripts.report import risks, risks_capacity
from scripts.report.number_formats import time
from scripts.report.risks import Risk, Severity


def rungs(*kept):
    """Return the change that keeps some rungs of `interactive`, and what is left of the model."""

    def change(data):
        ladder = data["capacity"]["interactive"]
        ladder["rungs"] = [ladder["rungs"][at] for at in kept]
        data["models"]["llama-3.1-8b"]["form"] = "single"
        del data["models"]["llama-3.1-8b"]["replicas"]["standby"]

    return change


def one_zone(data):
    data["regions"]["us-central1"]["zones"] = ["us-central1-b"]


def no_such_zone(data):
    rungs(2)(data)
    h200: dict[str, object] = {
        "accelerator": "nvidia-h200-141gb",
        "count": 8,
        "provisioning": "flex-start",
    }
    h200["allow_unlisted_zones"] = True  # or the stack is refused
    data["capacity"]["interactive"]["rungs"] = [h200]
    data["regions"]["us-central1"]["zones"] = ["us-central1-a"]


@pytest.mark.parametrize(
    ("change", "severity", "says"),
    [
        (
            rungs(0),
            Severity.FIX,
            "has one rung, tpu-v6e 2x2 reservation, and no fallback",
        ),
        (rungs(2), Severity.FIX, "has no permanent rung"),
        (one_zone, Severity.FIX, "has all its machines in a region in one zone"),
        (no_such_zone, Severity.STOPS, "cannot get nvidia-h200-141gb x8 flex-start in us-central1"),
    ],
    ids=["one rung", "spot alone", "one zone", "no zone"],
)
def test_a_ladder_that_ends_too_early_is_a_risk(stack, change, severity, says):
    found = [one for one in risks_capacity.of_capacity(resolve(stack(change))) if says in one.what]
    assert [one.severity for one in found] == [severity]


def test_a_ladder_of_three_rungs_in_three_zones_is_none(stack):
    assert list(risks_capacity.of_capacity(resolve(stack()))) == []


def test_a_disk_in_one_zone_is_a_risk_whatever_the_rungs_have(stack):
    found = list(risks_capacity.of_capacity(resolve(stack(name="prod"))))
    assert {one.subject for one in found} == {"Zone"}
    by_model = {one.what.partition(" ")[0]: one for one in found}
    assert {name: one.where for name, one in by_model.items()} == {
        "llama-3.1-8b": "asia-northeast1-b",
        "gemma-3-27b": "asia-northeast1-b",  # H100 and TPU are in that zone only
        "qwen3-32b": "asia-northeast1-b",
        "llama-3.3-70b": "us-central1-b, asia-northeast1-b",
    }
    assert by_model["llama-3.3-70b"].then == "add a disk in another zone"


def test_a_model_of_one_replica_is_a_risk_and_a_standby_mends_it(stack):
    def with_standby(data):
        data["models"]["llama-3.1-8b"]["replicas"]["standby"] = 1

    found = [
        list(risks_capacity.of_replicas(served(resolve(one)), starts(resolve(one))))
        for one in (stack(), stack(with_standby))
    ]
    assert [len(each) for each in found] == [1, 0]
    slowest = max(one.start.seconds for one in starts(resolve(stack())))
    assert f"up to {time(slowest)}" in found[0][0].what
    assert "or its node is upgraded" in found[0][0].what


def test_a_rung_that_starts_too_late_is_a_risk_with_both_times(stack):
    def hurried(data):
        data["models"]["llama-3.1-8b"]["slo"]["cold_start_s"] = 300

    platform = stack(hurried)
    found = list(risks_capacity.of_starts(starts(resolve(platform))))
    late = [one for one in starts(resolve(platform)) if one.is_late]
    assert [one.what for one in found] == [
        f"llama-3.1-8b on {late[0].rung} starts in {time(late[0].start.seconds)}, "
        "slo.cold_start_s is 5 min"
    ]


def test_a_rung_too_slow_for_the_promise_is_a_risk_and_one_fast_enough_is_none(stack):
    def hurried(data):
        data["models"]["llama-3.1-8b"]["slo"]["tpot_p95_ms"] = 1

    found = []
    for platform in (stack(hurried), stack()):
        units = unit_costs(resolve(platform), bill(served(resolve(platform))))
        found.append(list(risks_capacity.of_speed(resolve(platform), units)))
    assert [len(each) for each in found] == [1, 0]
    assert found[0][0].what.startswith(
        "llama-3.1-8b on tpu-v6e 2x2 reservation is estimated to miss its SLO"
    )
    assert "1 ms between tokens" in found[0][0].where


def test_a_stale_price_is_a_risk(stack):
    total = stack_cost(resolve(stack(name="prod")))
    later = total.outdated(date(2030, 1, 1))
    said = {one.what: one.severity for one in risks.of_prices(total, later | {"stale": ["a"]})}
    assert said["Prices are older than 120 days"] is Severity.FIX


def finding(verdict, rule, name="Deployment models/a"):
    return Finding(verdict, name, "spec", "1", "why", "fix", "file", rule, "c-1")


def test_a_broken_invariant_stops_it_and_an_open_one_is_to_be_known():
    findings = (
        finding(Verdict.BROKEN, "names-agree"),
        finding(Verdict.BROKEN, "names-agree", "Deployment models/b"),
        finding(Verdict.UNKNOWN, "fits"),
    )
    first, second = risks.of_rules(Report(2, 54, findings))
    assert (first.severity, first.what) == (Severity.STOPS, "names-agree: why")
    assert first.where == "Deployment models/a (c-1), Deployment models/b (c-1)"
    assert (second.severity, second.what) == (Severity.KNOW, "fits cannot decide: why")


def test_a_mandatory_policy_stops_it_an_advisory_one_is_known_and_a_mended_one_is_none():
    found = risks.of_policies(
        finding(Verdict.BROKEN, rule)
        for rule in ("encrypted-secrets", "deletion-protection", "cost-labels")
    )
    assert [(one.severity, one.what) for one in found] == [
        (
            Severity.KNOW,
            "encrypted-secrets: Production clusters encrypt Kubernetes Secrets with your own key.",
        ),
        (
            Severity.STOPS,
            "deletion-protection: Production clusters have deletion protection.",
        ),
    ]


def test_the_worst_comes_first_and_nothing_twice():
    known = Risk(Severity.KNOW, "Cost", "a", "", "")
    stops = Risk(Severity.STOPS, "Policy", "b", "", "")
    assert risks.ordered([known, stops, known]) == (stops, known)


def test_many_names_are_cut_with_their_number():
    assert risks.listed("abcdef") == "a, b, c, d and 2 more"
    assert risks.listed("aab") == "a, b"


def test_a_quota_that_is_short_stops_it_with_the_request_to_make(stack):
    asked = standings(needs(resolve(stack())), lambda need: Limit(1))
    found = list(risks_capacity.of_quota(asked, "acme"))
    assert len(found) == len([one for one in asked if one.short_by])
    assert {one.severity for one in found} == {Severity.STOPS}
    tpu = next(one for one in found if "TPU" in one.what)
    assert "limit 1" in tpu.what
    assert tpu.then.startswith("gcloud beta quotas preferences create --project=acme")


def test_a_quota_whose_limit_is_not_known_is_no_risk(stack):
    assert (
        list(risks_capacity.of_quota(standings(needs(resolve(stack())), lambda need: None), "a"))
        == []
    )


def of_budget(platform, monthly_usd, discount=0):
    budget = platform.budget.model_copy(
        update={"monthly_usd": monthly_usd, "discount_percent": discount}
    )
    found = risks.of_budget(budget, stack_cost(resolve(platform)))
    return [(one.severity, one.what) for one in found]


def test_a_budget_that_the_stack_passes_is_a_risk(stack):
    [(severity, what)] = of_budget(stack(name="prod"), 1_000)
    assert severity is Severity.FIX
    assert "The expected cost is $" in what


def test_a_budget_that_only_the_published_prices_keep_within_is_not_taken_for_enough(stack):
    for discount in (0, 40):
        [(severity, what)] = of_budget(stack(name="prod"), 2_000_000, discount)
        assert severity is Severity.KNOW
        assert "whether it is sufficient is unknown, because some items have no price" in what


def test_a_budget_that_all_replicas_may_pass_is_told_once(stack):
    [(severity, what)] = of_budget(stack(name="prod"), 800_000)
    assert severity is Severity.KNOW
    assert "The maximum cost is $1," in what


def test_a_budget_that_every_price_is_known_for_and_keeps_within_is_no_risk(stack):
    whole = stack_cost(resolve(stack(rungs(0))))
    known = replace(whole, parts=tuple(part for part in whole.parts if part.source))
    assert not known.missing
    assert list(risks.of_budget(stack(name="prod").budget, known)) == []


def test_a_stack_without_a_budget_has_no_risk_of_passing_it(stack):
    assert list(risks.of_budget(None, stack_cost(resolve(stack())))) == []


def test_what_has_no_published_price_is_one_risk_that_names_it(stack):
    whole = stack_cost(resolve(stack()))
    [risk] = risks.of_prices(whole, {})
    assert risk.what == "1 price is not published and not in the totals"
    assert risk.where == "Cloud Armor policy in us-central1"
