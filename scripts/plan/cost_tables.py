"""The tables and totals of `gke-inference cost`."""

from collections.abc import Iterator
from typing import Final

from gke_inference.catalogue.prices import COMMITTED_YEARS
from gke_inference.intent.schedule import HOURS_OF_WEEK
from infra.estimate.commitment_costs import Commitments
from infra.estimate.cost_parts import ACCELERATORS, Part
from infra.estimate.stack_cost import StackCost
from infra.stack import Budget
from planner.amount import HOURS_PER_MONTH, UNVERIFIED_MARK, Amount, missing_lines, total
from planner.choice.cost import BILL_KEYS, FIELDS, Bill
from scripts.terminal.tables import Column, Listing, figure

_LEAST_SHARE: Final = 0.005
_SHARES: Final = 3
"""Number of parts of the cost that the summary names."""


def line_table(found: Bill) -> Listing:
    """Return the hourly cost of accelerator machines as a table."""
    table = Listing(
        "MODEL", "REGION", Column("ROLE", spare=2), Column("FIRST RUNG WITH A PRICE", spare=1),
        figure("REPLICAS", spare=2), figure("$/H PER REPLICA", spare=2), figure("MIN $/H"),
        figure("EXPECTED $/H"), figure("MAX $/H"),
    )  # fmt: skip
    for line in found.lines:
        first = line.first
        one = line.served
        table.add_row(
            one.model,
            one.region,
            one.role,
            first.rung if first else "none",
            f"{line.minimum_replicas:.4g}/{line.expected_replicas:.4g}/{one.replicas.max}",
            f"{first.usd_per_hour:.2f}" if first else "?",
            *("?" if first is None else f"{getattr(line, field):,.2f}" for field in FIELDS),
        )
    return table


def schedule_lines(found: Bill) -> Iterator[str]:
    """Yield the hours of a week with a larger minimum of replicas, by model and region."""
    for line in found.lines:
        one = line.served
        hours = [
            f"{share * HOURS_OF_WEEK:.4g} h with at least {least}" for least, share in one.shares
        ]
        if hours:
            rest = HOURS_OF_WEEK * (1 - sum(share for _, share in one.shares))
            usual = f"{rest:.4g} h with at least {one.replicas.min}"
            yield f"{one.model} in {one.region} ({one.role}): {', '.join([*hours, usual])} a week"


def machines_lines(found: Bill) -> Iterator[str]:
    """Yield the expected hourly cost of accelerators, by each of `BILL_KEYS`."""
    for key in BILL_KEYS:
        parts = [f"{name} {each.total('expected'):$,.2f}" for name, each in found.by(key).items()]
        yield f"accelerators, expected per hour by {key}: {', '.join(parts)}"


def group_table(cost: StackCost) -> Listing:
    """Return the monthly cost by group and part as a table, summed over regions."""
    table = Listing(
        "GROUP", "PART", Column("REGIONS", spare=1, is_right=True), figure("MIN $/MONTH"),
        figure("EXPECTED $/MONTH"), figure("MAX $/MONTH"),
    )  # fmt: skip
    for group in cost.groups:
        what = "all machines above" if group.name == ACCELERATORS else "all"
        figures = _monthly([group.total(field) for field in FIELDS])
        table.add_row(group.name, what, "", *figures, style="bold")
        for name, parts in _by_name(cost, group.name).items():
            sums = [total(getattr(part, field) for part in parts) for field in FIELDS]
            if not sums[-1].is_unknown:  # it has a line below the table
                regions = sum(not part.maximum.is_unknown for part in parts)
                table.add_row(group.name, name, str(regions), *_monthly(sums))
    return table


def _by_name(cost: StackCost, group: str) -> dict[str, list[Part]]:
    found: dict[str, list[Part]] = {}
    for part in cost.parts:
        if part.group == group:
            found.setdefault(part.what, []).append(part)
    return found


def _monthly(amounts: list[Amount]) -> list[str]:
    return [f"{amount * HOURS_PER_MONTH:,.2f}" for amount in amounts]


def booking_lines(cost: StackCost) -> Iterator[str]:
    """Yield the reservations in calendar mode, each with the cost of its whole period."""
    for one in cost.bookings:
        yield (
            f"reservation {one.name} in {one.region}: {one.machines} x {one.rung.machine_type} from"
            f" {one.period.start:%Y-%m-%d} to {one.period.end:%Y-%m-%d} ({one.period.hours:.4g} h),"
            f" {one.whole:$,.2f} whether used or not"
        )


def headlines(cost: StackCost, budget: Budget | None) -> Iterator[str]:
    """Yield what a reader decides by: the totals, the largest shares, the budget, the gaps."""
    month = {field: f"{cost.total(field) * HOURS_PER_MONTH:$,.0f}" for field in FIELDS}
    yield (
        f"Expected at list prices: {month['expected']} a month"
        f" (minimum {month['minimum']}, maximum {month['maximum']})"
    )
    hour = [f"{field} {cost.total(field):$,.2f}" for field in FIELDS]
    yield f"per hour: {', '.join(hour)}; a month has {HOURS_PER_MONTH} hours"
    if shares := _largest(cost):
        yield f"largest shares: {', '.join(f'{name} {share:.0%}' for name, share in shares)}"
    if budget is not None:
        yield budget_line(budget, cost)
    gaps = {
        "without a published price, not included": sum(not one.option for one in cost.missing),
        "of unknown quantity, not included": sum(bool(one.option) for one in cost.missing),
        f"with an unverified price ({UNVERIFIED_MARK})": len(cost.unverified),
    }
    if any(gaps.values()):
        named = [f"{count} {what}" for what, count in gaps.items() if count]
        yield f"items listed at the end: {'; '.join(named)}"


def _largest(cost: StackCost) -> list[tuple[str, float]]:
    """Return the largest parts of the expected cost with their shares: models, other groups."""
    whole = cost.total("expected").value
    parts = {name: one.total("expected").value for name, one in cost.bill.by("model").items()}
    parts |= {
        group.name: group.total("expected").value
        for group in cost.groups
        if group.name != ACCELERATORS
    }
    ranked = sorted(parts.items(), key=lambda part: -part[1])[:_SHARES]
    return [(name, usd / whole) for name, usd in ranked if usd >= _LEAST_SHARE * whole]


def budget_line(budget: Budget, cost: StackCost) -> str:
    """Return the line with the share of a budget that a stack uses."""
    paid = (100 - budget.discount_percent) / 100
    share = HOURS_PER_MONTH * paid / budget.monthly_usd
    words = ("at minimum", "expected", "at maximum")
    shares = [
        f"{cost.counted(budget.covers, field) * share:.0%} {word}"
        for field, word in zip(FIELDS, words, strict=True)
    ]
    less = f", {budget.discount_percent} % off list prices" if budget.discount_percent else ""
    return f"budget: ${budget.monthly_usd:,} a month; the stack uses {', '.join(shares)}{less}"


def commitment_table(found: Commitments) -> Listing:
    """Return the monthly cost of always-running machines with commitments as a table."""
    table = Listing(
        "ALWAYS RUNS", "REGION", figure("COUNT", spare=1), figure("ON DEMAND $/MONTH"),
        figure("1 YEAR $/MONTH"), figure("3 YEARS $/MONTH"),
    )  # fmt: skip
    for one in found.each:
        if one.is_published:
            figures = _monthly([one.on_demand, *(one.by_years[years] for years in COMMITTED_YEARS)])
            table.add_row(one.what, one.region, str(one.count), *figures)
    return table


def commitment_lines(found: Commitments) -> Iterator[str]:
    """Yield the savings of commitments, and the machines without a commitment price."""
    listed = found.on_demand
    if listed.value:
        said = [f"{listed * HOURS_PER_MONTH:$,.0f} on demand"]
        for years in COMMITTED_YEARS:
            paid = found.committed(years)
            unit = "year" if years == 1 else "years"
            less = f"{1 - paid.value / listed.value:.0%} less"
            said.append(f"{paid * HOURS_PER_MONTH:$,.0f} with {years} {unit} ({less})")
        yield f"always running, per month: {', '.join(said)}"
    yield from missing_lines(found.missing)
