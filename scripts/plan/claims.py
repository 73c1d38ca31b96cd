"""`gke-inference plan --claims`: published claims beside what this project has for each."""

from dataclasses import asdict

from planner.unit_cost.claims import Claim, Figure, claims
from scripts.terminal.console import console
from scripts.terminal.output import Output, print_data
from scripts.terminal.tables import Listing, figure, print_table, prose
from twin.host.paths import REPOSITORY

_RESULTS = REPOSITORY / "docs" / "routing-results.md"


def all_claims() -> tuple[Claim, ...]:
    """Return the claims, with the committed results of `bench routing`."""
    return claims(_RESULTS.read_text())


def amount(value: float, unit: str) -> str:
    """Return a figure as text, such as `3.5 times` or `$0.25`."""
    if unit == "$":
        return f"${value:.2f}"
    if unit == "chips":
        return f"{value:.0f} chips"
    places = 1 if abs(value) < (100 if unit == "%" else 10) else 0
    return f"{round(value, places) + 0.0:g} {unit}"


def spanned(one: Figure) -> str:
    """Return a figure with its range, where it has one."""
    low, high = amount(one.low, one.unit), amount(one.high, one.unit)
    if low == high:
        return amount(one.value, one.unit)
    low = low.split(" ")[0]
    return f"{amount(one.value, one.unit)} ({low} to {high})"


def print_claims(output: Output) -> None:
    """Print all claims."""
    found = all_claims()
    if output.is_data:
        listed = [
            {
                **asdict(one),
                "figures": [{**asdict(each), "holds": one.verdict(each)} for each in one.figures],
            }
            for one in found
        ]
        print_data({"claims": listed}, output)
        return
    table = Listing("CLAIM", prose("FIGURE"), figure("RESULT"), "HOLDS")
    for one in found:
        for number, each in enumerate(one.figures):
            title = one.title if number == 0 else ""
            table.add_row(title, each.of, spanned(each), one.verdict(each) or "-")
        if not one.figures:
            table.add_row(one.title, "cannot be computed here", "-", "-")
    print_table(table)
    console.print("Sources, conditions and measurements that settle each: docs/published-claims.md")
