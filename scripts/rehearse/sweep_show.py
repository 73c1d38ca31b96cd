"""The result of a sweep, on the terminal and as JSON."""

from collections.abc import Iterator
from typing import Any

from scripts.rehearse.search import Found, Tried
from scripts.terminal.console import console
from scripts.terminal.tables import Listing, figure, print_table, prose
from simulator.rehearsal.accounts import PERCENTILE

_ROWS = 8
"""Rows of a group."""


def headlines(found: Found, most_failed: float, where: str) -> Iterator[str]:
    """Yield the lines that decide: the winner, its dollars, what it changes, misses, risk."""
    now, best = found.as_it_is, found.winner
    names = tuple(best.models)
    is_kept = best.excess(names, most_failed) == 0
    was_kept = now.excess(names, most_failed) == 0
    option = found.option
    yield (
        f"Winner: ${best.usd:,.2f} for accelerators and fallbacks in {best.hours:g} h, as it is "
        f"${now.usd:,.2f} ({_percent(best.usd, now.usd)}); objectives "
        + ("kept" if is_kept else "BROKEN: no setting within the bounds keeps them")
        + ("" if was_kept else "; as it is they are broken")
    )
    yield f"It changes: {option.text if option.settings else 'nothing, the stack as it is is best'}"
    yield f"Late, worst objective: {_late(found, True)}, as it is {_late(found, False)}"
    yield (
        f"Risk: {best.spot_share:.0%} of the machine time is on spot or flex-start machines (as it "
        f"is {now.spot_share:.0%}), and rungs have stock unless --fault says otherwise"
    )
    yield f"Tried {_count(found)} settings in {found.rehearsals} rehearsals, on {where}"
    if best.without_price_hours:
        yield (
            f"Without a price, and not in the dollars: {best.without_price_hours:,.1f} machine "
            f"hours, as it is {now.without_price_hours:,.1f}"
        )


def _count(found: Found) -> int:
    return sum(len(each) - 1 for each in found.tried)


def _late(found: Found, is_best: bool) -> str:
    one = found.winner if is_best else found.as_it_is
    shares = {name: each.late_share for name, each in one.models.items() if each.late}
    failed = max((each.failed_share for each in one.models.values()), default=0.0)
    text = "no model has an objective"
    if shares:
        worst = max(shares, key=lambda name: shares[name])
        text = f"{shares[worst]:.1%} of {worst} (allowed {1 - PERCENTILE:.0%})"
    return f"{text}, {failed:.2%} failed at worst"


def _percent(value: float, base: float) -> str:
    return f"{value / base - 1:+.1%}" if base else "no cost"


def print_found(found: Found, most_failed: float, where: str) -> None:
    """Print the result."""
    for text in headlines(found, most_failed, where):
        console.print(text, markup=False, soft_wrap=True)
    console.print()
    print_table(table(found))


def table(found: Found) -> Listing:
    """Return the best settings of each group, those that ran longest first."""
    made = Listing(
        "MODELS", figure("HOURS", spare=1), figure("USD"), figure("LATE"), figure("FAILED"),
        "OBJECTIVES", prose("SETTINGS"),
    )  # fmt: skip
    for group, tried, best in zip(found.groups, found.tried, found.best, strict=True):
        for each in tried[:_ROWS]:
            mark = "* " if each.option == best else ""
            made.add_row(
                group.name, f"{each.hours:g}", f"{each.usd:,.2f}", f"{each.late_share:.1%}",
                f"{each.failed_share:.2%}", "kept" if not each.excess else "broken",
                mark + each.option.text,
            )  # fmt: skip
    return made


def as_data(found: Found, stack: str, most_failed: float, where: str) -> dict[str, Any]:
    """Return the result as JSON values."""
    names = tuple(found.winner.models)
    return {
        "stack": stack,
        "is_kept": found.winner.excess(names, most_failed) == 0,
        "usd": round(found.winner.usd, 2),
        "usd_as_it_is": round(found.as_it_is.usd, 2),
        "hours": found.winner.hours,
        "changes": [
            {"path": ".".join(each.path), "value": each.value, "text": each.text}
            for each in found.option.settings
        ],
        "lines": list(headlines(found, most_failed, where)),
        "rehearsals": found.rehearsals,
        "groups": [
            {
                "models": group.models,
                "tried": [_tried(each, is_best=each.option == best) for each in tried],
            }
            for group, tried, best in zip(found.groups, found.tried, found.best, strict=True)
        ],
    }


def _tried(one: Tried, *, is_best: bool) -> dict[str, Any]:
    return {
        "settings": [each.text for each in one.option.settings], "hours": one.hours,
        "usd": round(one.usd, 2), "late_share": round(one.late_share, 6),
        "failed_share": round(one.failed_share, 6), "is_kept": one.excess == 0,
        "is_best": is_best,
    }  # fmt: skip
