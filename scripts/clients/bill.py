"""Team bills as tables, data and CSV."""

import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from infra.estimate.cost_parts import ACCELERATORS, GROUPS
from infra.estimate.team_bills import (
    KEPT,
    UNASSIGNED,
    UNUSED,
    Charge,
    Key,
    Payer,
    TeamBill,
    Tokens,
)
from scripts.clients.usage import csv_of, used_of
from scripts.terminal.console import CommandError
from scripts.terminal.tables import Listing, figure, print_table

BILL_FIELDS: Final = ("team", "model", "region", "component")
"""Fields for grouping charges."""
COMPONENTS: Final = (ACCELERATORS, UNUSED, KEPT, UNASSIGNED, *GROUPS[1:])
"""Components of a charge, in display order."""
_MONTH: Final = re.compile(r"(20\d\d)-(0[1-9]|1[0-2])")
_NONE: Final = "-"


@dataclass(frozen=True)
class Period:
    """The period of a bill."""

    begin: datetime
    end: datetime

    @property
    def hours(self) -> float:
        """Length."""
        return (self.end - self.begin).total_seconds() / 3600

    @property
    def billing(self) -> "Period":
        """The calendar months (UTC) that the period touches."""
        first = self.begin.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        last = month_of(self.end.year, self.end.month)
        return Period(first, last.begin if last.begin == self.end else last.end)

    def has(self, record: Mapping[str, Any]) -> bool:
        """Return whether a record is in this period."""
        return self.begin <= datetime.fromisoformat(str(record["time"])) < self.end


def month_of(year: int, month: int) -> Period:
    """Return a calendar month in UTC."""
    after = datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)
    return Period(datetime(year, month, 1, tzinfo=UTC), after)


def month_at(option: str, text: str, now: datetime) -> Period:
    """Return a calendar month, of the current one what has passed.

    Raises:
        CommandError: It is no month, or it has not begun.
    """
    found = _MONTH.fullmatch(text)
    if found is None:
        raise CommandError(f"{option}: must be a month such as 2026-11, got {text!r}")
    whole = month_of(int(found[1]), int(found[2]))
    if whole.begin >= now:
        raise CommandError(f"{option}: must be a month that has begun, got {text!r}")
    return Period(whole.begin, min(whole.end, now))


def tokens_of(records: Iterable[Mapping[str, Any]], period: Period) -> dict[Key, Tokens]:
    """Return the tokens of the gates' records by team, requested model and region."""
    found: dict[Key, Tokens] = {}
    for record in records:
        one = used_of(record)
        if one is None or not period.has(record) or not record.get("model"):
            continue
        names, used = one
        if not used.prompt_tokens and not used.completion_tokens and used.refused:
            continue
        key = Key(names["team"], names["model"], names["region"])
        more = Tokens(1, used.prompt_tokens, used.cached_tokens, used.completion_tokens)
        found[key] = found.get(key, Tokens()) + more
    return found


@dataclass(frozen=True)
class BillRow:
    """Charges with the same values of some of `BILL_FIELDS`."""

    payer: Payer
    names: tuple[str, ...]
    usd: Mapping[str, float]
    """US dollars by component."""
    tokens: Tokens

    @property
    def whole(self) -> float:
        """Sum in US dollars."""
        return sum(self.usd.values())


def rows_of(bill: TeamBill, by: Sequence[str]) -> list[BillRow]:
    """Return the charges by some of `BILL_FIELDS`: teams by name, idle capacity, the platform."""
    order = tuple(Payer)
    groups: dict[tuple[int, tuple[str, ...]], list[Charge]] = {}
    for each in bill.charges:
        key = (order.index(each.payer), tuple(_name(each, field) for field in by))
        groups.setdefault(key, []).append(each)
    found: list[BillRow] = []
    for (payer, names), charges in sorted(groups.items()):
        usd = {
            component: sum(each.usd for each in charges if each.component == component)
            for component in COMPONENTS
        }
        tokens = sum((each.tokens for each in charges), Tokens())
        found.append(BillRow(order[payer], names, usd, tokens))
    return found


def _name(charge: Charge, field: str) -> str:
    if field == "team":
        return charge.team if charge.payer is Payer.TEAM else f"({charge.payer})"
    return {
        "model": charge.model, "region": charge.region, "component": charge.component,
    }[field] or _NONE  # fmt: skip


def print_bill(rows: Sequence[BillRow], by: Sequence[str]) -> None:
    """Print a bill as a table with a total."""
    shown = [one for one in COMPONENTS if any(row.usd[one] for row in rows)]
    columns = [figure(f"{one.upper()} $", spare=2) for one in shown if "component" not in by]
    has_teams = "team" in by  # whose names tell the payer
    table = Listing(
        *(() if has_teams else ("PAYER",)), *(field.upper() for field in by),
        figure("REQUESTS", spare=1), figure("TOKENS", spare=1),
        *columns, figure("TOTAL $"), figure("SHARE"),
    )  # fmt: skip
    whole = sum(row.whole for row in rows)
    total = _total(rows, by)
    for row in (*rows, total):
        tokens = row.tokens.prompt + row.tokens.completion
        parts = [f"{row.usd[one]:,.2f}" for one in shown]
        table.add_row(
            *(() if has_teams else ("all" if row is total else str(row.payer),)),
            *row.names,
            f"{row.tokens.requests:,}",
            f"{tokens:,}",
            *(parts if columns else ()),
            f"{row.whole:,.2f}",
            f"{row.whole / whole:.1%}" if whole else _NONE,
        )
    print_table(table)


def _total(rows: Sequence[BillRow], by: Sequence[str]) -> BillRow:
    usd = {one: sum(row.usd[one] for row in rows) for one in COMPONENTS}
    tokens = sum((row.tokens for row in rows), Tokens())
    names = ("all" if each == "team" else "" for each in by)
    return BillRow(Payer.PLATFORM, tuple(names), usd, tokens)


def bill_as_data(rows: Sequence[BillRow], by: Sequence[str]) -> list[dict[str, Any]]:
    """Return a bill as data: an object for each row."""
    return [_plain(row, by) for row in rows]


def bill_as_csv(rows: Sequence[BillRow], by: Sequence[str]) -> str:
    """Return a bill as CSV with a header."""
    return csv_of([_plain(row, by) for row in (rows or [_total([], by)])])


def drawn(bill: TeamBill, period: Period, file: Path) -> None:
    """Draw a bill: a bar for each team, idle capacity and the platform."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("MPLCONFIGDIR", folder)
        # loads the plotting library
        from twin.drawings.shares_svg import save  # noqa: PLC0415

        bars = {
            row.names[0]: {one: usd for one, usd in row.usd.items() if usd}
            for row in rows_of(bill, ("team",))
        }
        title = f"Cost from {period.begin:%Y-%m-%d} to {period.end:%Y-%m-%d}"
        save(bars, file, "US dollars", title)


def _plain(row: BillRow, by: Sequence[str]) -> dict[str, Any]:
    return {
        "payer": str(row.payer),
        **dict(zip(by, row.names, strict=True)),
        "requests": row.tokens.requests,
        "prompt_tokens": row.tokens.prompt,
        "cached_tokens": row.tokens.cached,
        "completion_tokens": row.tokens.completion,
        **{f"{one}_usd": round(row.usd[one], 6) for one in COMPONENTS},
        "usd": round(row.whole, 6),
    }


def notes(bill: TeamBill) -> Iterator[str]:
    """Yield the lines below a bill: what it cannot know."""
    if bill.unknown:
        names = ", ".join(bill.unknown)
        yield f"no token cost for {names}: teams that use it pay for all of its serving replicas"
    if bill.elsewhere:
        names = ", ".join(bill.elsewhere)
        yield f"not served by accelerators of this stack, so not in this bill: {names}"
