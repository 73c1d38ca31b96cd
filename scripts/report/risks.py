"""The risks of a stack, most severe first: each with its location and its fix."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from infra.estimate.stack_cost import StackCost
from infra.stack import Budget
from planner.amount import HOURS_PER_MONTH
from policies.checker.checker import Report
from policies.framework.finding import Finding, Verdict
from policies.rules import policies
from scripts.report.versions import Versions

_SHOWN = 4
_DIGESTS = "images-have-digests"


class Severity(StrEnum):
    """Severity of a risk."""

    STOPS = "stops"
    """The stack would not come up, or not work."""
    FIX = "fix"
    """The stack works until something fails."""
    KNOW = "know"
    """Something is unknown, or a deliberate choice."""


@dataclass(frozen=True)
class Risk:
    """One thing that can go wrong."""

    severity: Severity
    subject: str
    what: str
    where: str
    then: str
    """Fix; empty if nothing needs to be done."""


def ordered(found: Iterable[Risk]) -> tuple[Risk, ...]:
    """Return risks sorted by severity, most severe first; the sort is stable."""
    order = list(Severity)
    return tuple(sorted(dict.fromkeys(found), key=lambda one: order.index(one.severity)))


def of_rules(report: Report) -> Iterator[Risk]:
    """Yield the findings of the invariants, one risk per rule and reason."""
    for (rule, why), found in _grouped(report.of(Verdict.BROKEN)).items():
        yield Risk(Severity.STOPS, "Invariant", f"{rule}: {why}", _listed(found), found[0].fix)
    open_: dict[str, list[Finding]] = {}
    for finding in report.of(Verdict.UNKNOWN):
        if finding.rule == _DIGESTS:
            continue  # `of_versions` says it once an image
        open_.setdefault(finding.rule, []).append(finding)
    for rule, found in open_.items():
        what = f"{rule} cannot decide: {found[0].why}"
        yield Risk(Severity.KNOW, "Invariant", what, _listed(found), found[0].fix)


def _grouped(findings: Iterable[Finding]) -> dict[tuple[str, str], list[Finding]]:
    found: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        found.setdefault((finding.rule, finding.why), []).append(finding)
    return found


def _listed(findings: list[Finding]) -> str:
    return listed(f"{one.object} ({one.world})" if one.world else one.object for one in findings)


def listed(names: Iterable[str]) -> str:
    """Return names as one text, shortened to the first few."""
    every = list(dict.fromkeys(names))
    more = len(every) - _SHOWN
    return ", ".join(every[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def of_policies(findings: Iterable[Finding]) -> Iterator[Risk]:
    """Yield the findings of the policy pack, one risk per rule."""
    by_rule: dict[str, list[Finding]] = {}
    for one in findings:
        by_rule.setdefault(one.rule, []).append(one)
    for name, found in by_rule.items():
        rule = policies()[name].rule
        if rule.level == "remediating":
            continue  # a preview with the pack fixes it
        severity = Severity.STOPS if rule.level == "mandatory" else Severity.KNOW
        where = listed(each.object for each in found)
        yield Risk(severity, "Policy", f"{name}: {rule.description}", where, found[0].message)


def at_list_price(budget: Budget) -> float:
    """Return the monthly list price that a budget covers, in dollars."""
    return budget.monthly_usd / (1 - budget.discount_percent / 100)


def of_budget(budget: Budget | None, found: StackCost) -> Iterator[Risk]:
    """Yield a budget that the stack's expected or maximum cost exceeds.

    With unpublished prices, it is unknown whether a budget that is not exceeded is sufficient.
    """
    if budget is None:
        return
    bought = at_list_price(budget)
    for field, severity, word in (
        ("expected", Severity.FIX, "The expected cost"),
        ("maximum", Severity.KNOW, "The maximum cost"),
    ):
        cost = found.counted(budget.covers, field) * HOURS_PER_MONTH
        if cost.value > bought:
            what = f"{word} is {cost:$,.0f} a month, the budget covers ${bought:,.0f}"
            then = "raise the budget, allow fewer replicas, or put cheaper rungs first"
            yield Risk(severity, "Budget", what, "at list price", then)
            return
    expected = found.counted(budget.covers, "expected") * HOURS_PER_MONTH
    if expected.missing:
        what = (
            f"The expected cost is {expected:$,.0f} a month, the budget covers ${bought:,.0f}: "
            "whether it is sufficient is unknown, because some items have no price"
        )
        where = listed(map(str, expected.missing))
        yield Risk(Severity.KNOW, "Budget", what, where, "ask for a quote")


def of_prices(found: StackCost, outdated: dict[str, list[str]]) -> Iterator[Risk]:
    """Yield unpublished and outdated prices."""
    unpriced = [str(one) for one in found.missing if not one.option]
    if unpriced:
        said = "1 price is" if len(unpriced) == 1 else f"{len(unpriced)} prices are"
        what = f"{said} not published and not in the totals"
        yield Risk(Severity.KNOW, "Cost", what, listed(unpriced), "ask for a quote")
    if unknown := [one for one in found.missing if one.option]:
        what = "Quantities are unknown and not in the totals"
        options = " ".join(sorted({one.option for one in unknown}))
        then = f"state them: gke-inference cost {options}"
        yield Risk(Severity.KNOW, "Cost", what, listed(map(str, unknown)), then)
    for said, sources in outdated.items():
        severity = Severity.FIX if said == "stale" else Severity.KNOW
        what = (
            "Prices are older than 120 days"
            if said == "stale"
            else "Some prices are dated by year only"
        )
        yield Risk(severity, "Cost", what, listed(sources), "compare with Google's price list")


def of_versions(found: Versions) -> Iterator[Risk]:
    """Yield images without a digest, whose tags can move."""
    open_ = [row.name for row in found.images if not row.is_pinned]
    if open_:
        yield Risk(
            Severity.FIX,
            "Versions",
            f"{len(open_)} of {len(found.images)} images have no digest: their tags can move",
            listed(open_),
            "gke-inference images pin",
        )
