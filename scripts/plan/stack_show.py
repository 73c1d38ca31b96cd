"""A plan of a whole stack as tables and as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from planner.advice.portfolio import Key, Portfolio
from planner.amount import HOURS_PER_MONTH, Amount, price_notes
from planner.choice.cost import amount_of, unverified_mark
from planner.choice.question import Estimate
from scripts.plan.proposals import Proposal
from scripts.plan.requirements import Requirements
from scripts.terminal.console import console
from scripts.terminal.tables import Listing, figure, print_table, prose

Found = Portfolio[Proposal]


@dataclass(frozen=True)
class Shown:
    """A plan of a stack, to be shown."""

    found: Requirements
    points: Sequence[Found]
    best: Found | None
    limits: Mapping[Key, int]
    kept_usd_per_hour: Mapping[str, float | None]
    """Peak cost of each model that stays as it is; None without a price."""
    notes: Sequence[str]


def print_stack(shown: Shown) -> None:
    """Print the frontier, the proposal, its quotas and what stays as it is."""
    for name, load in shown.found.loads.items():
        console.print(
            f"{name}: {load.rate:,.2f} requests/s, {load.given} tokens in, {load.made} out"
        )
    if shown.points:
        print_table(_frontier_table(shown))
    if shown.best is not None:
        console.print()
        print_table(_proposal_table(shown.best))
        for line in _quota_lines(shown.best, shown.limits):
            console.print(f"[dim]{line}[/dim]")
    for line in price_notes(_prices(shown.best)):
        console.print(f"[dim]{line}[/dim]")
    for name, reason in shown.found.kept.items():
        console.print(f"{name} stays as it is: {reason}; {_kept_cost(shown, name)}", markup=False)
    console.print(
        "Costs are those of the peak, and include the models that stay as they are. Ranges are 80 %"
        " intervals; those of sums assume that all estimates are off in one direction. Reservations"
        " count as if they had room. Temporary nodes are Spot and flex-start."
    )
    for note in shown.notes:
        console.print(f"[dim]{note}[/dim]")


def _kept_cost(shown: Shown, name: str) -> str:
    usd = shown.kept_usd_per_hour.get(name)
    if usd is None:
        return "its cost is not known and not in the totals"
    return f"${usd * HOURS_PER_MONTH:,.0f} a month at its maximum"


def _quota_lines(best: Found, limits: Mapping[Key, int]) -> Iterator[str]:
    """Yield the limited quotas of a portfolio."""
    used = best.uses
    for (region, label), most in sorted(limits.items(), key=lambda one: (one[0][0] or "", one[0])):
        if (amount := used.get((region, label), 0)) > 0:
            yield f"{label} in {region or 'all regions'}: {amount:,} of {most:,}"
    if not any(used.get(key) for key in limits):
        yield "no quota that the proposal uses has a limit"


def _monthly(value: Estimate) -> str:
    return f"{value.value * HOURS_PER_MONTH:,.0f}"


def _range(value: Estimate) -> str:
    return f"{value.low * HOURS_PER_MONTH:,.0f}-{value.high * HOURS_PER_MONTH:,.0f}"


def _parts(one: Found) -> Iterator[tuple[str, Proposal]]:
    """Yield each model and each half of a paired one, with its name."""
    for name, offer in one.chosen.items():
        yield name, offer.what
        if offer.what.standby is not None:
            yield f"{name} standby", offer.what.standby


def _prices(best: Found | None) -> Iterator[Amount]:
    """Yield the hourly prices of a portfolio's replicas."""
    parts = () if best is None else _parts(best)
    for one in (one for _, made in parts for one in made.choices):
        what = f"{one.candidate.form.label} {one.provisioning}"
        yield amount_of(one.price, what, one.region)


def _frontier_table(shown: Shown) -> Listing:
    table = Listing(
        figure("TEMPORARY"), figure("$/MONTH"), figure("80 % INTERVAL"), prose("HARDWARE"), ""
    )
    for one in shown.points:
        names = (f"{name}: {made.hardware}" for name, made in _parts(one))
        choices = (choice for _, made in _parts(one) for choice in made.choices)
        mark = unverified_mark(choice.price for choice in choices)
        table.add_row(
            f"{one.temporary_share:.0%}",
            _monthly(one.usd_per_hour) + mark,
            _range(one.usd_per_hour) + mark,
            "; ".join(names),
            "proposed" if one is shown.best else "",
        )
    return table


def _proposal_table(best: Found) -> Listing:
    table = Listing(
        "MODEL", "HARDWARE", prose("RUNGS"), figure("REPLICAS"), figure("TTFT P95"),
        figure("TPOT P95"), figure("$/MONTH"), figure("80 % INTERVAL"),
    )  # fmt: skip
    for name, made in _parts(best):
        first = made.choices[0]
        mark = unverified_mark(one.price for one in made.choices)
        ttft = first.ttft_p95_ms if made.roles is None else made.roles.ttft_p95_ms
        tpot = first.tpot_p95_ms if made.roles is None else made.roles.tpot_p95_ms
        table.add_row(
            name,
            f"{first.candidate.form.label} {first.candidate.form.parallelism}",
            ", ".join(made.ladder),
            _replicas(made),
            f"{ttft.low:.0f}-{ttft.high:.0f} ms",
            f"{tpot.low:.0f}-{tpot.high:.0f} ms",
            _monthly(made.usd_per_hour) + mark,
            _range(made.usd_per_hour) + mark,
        )
    return table


def _replicas(made: Proposal) -> str:
    regions = f" x {len(made.choices)} regions" if len(made.choices) > 1 else ""
    counts = f"{made.replicas}-{made.most_replicas}"
    if made.roles is not None:
        counts = f"{counts} decode, {made.roles.prefill}-{made.roles.prefill_high} prefill"
    return f"{counts}{regions}"


def as_data(shown: Shown) -> dict[str, Any]:
    """Return a plan of a stack as JSON."""
    found, best = shown.found, shown.best
    return {
        "loads": {name: asdict(load) for name, load in found.loads.items()},
        "kept": dict(found.kept),
        "kept_usd_per_hour": dict(shown.kept_usd_per_hour),
        "frontier": [_portfolio(one) for one in shown.points],
        "proposed": None if best is None else shown.points.index(best),
        "limits": [
            {"region": region, "quota": label, "limit": most}
            for (region, label), most in shown.limits.items()
        ],
        "notes": list(shown.notes),
    }


def _portfolio(one: Found) -> dict[str, Any]:
    return {
        "temporary_share": one.temporary_share,
        "usd_per_hour": asdict(one.usd_per_hour),
        "models": {name: _proposal(made) for name, made in _parts(one)},
        "uses": [
            {"region": region, "quota": label, "amount": used}
            for (region, label), used in one.uses.items()
        ],
    }


def _proposal(made: Proposal) -> dict[str, Any]:
    form = made.choices[0].candidate.form
    return {
        "hardware": form.label,
        "parallelism": form.parallelism,
        "rungs": list(made.ladder),
        "regions": [one.region for one in made.choices],
        "min_replicas": made.minimum,
        "replicas": made.replicas,
        "most_replicas": made.most_replicas,
        "prefill_replicas": None if made.roles is None else made.roles.prefill,
        "most_prefill_replicas": None if made.roles is None else made.roles.prefill_high,
        "is_standby": made.is_standby,
        "usd_per_hour": asdict(made.usd_per_hour),
    }
