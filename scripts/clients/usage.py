"""Usage of teams: the callout's records, summed by team, model, day, region, key or subject."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scripts.terminal.tables import Listing, figure, print_table

FIELDS: Final = ("team", "model", "day", "region", "key", "subject")
"""Fields for grouping usage."""
_FIRST_ERROR: Final = 400


@dataclass(frozen=True)
class Used:
    """Usage of one or several requests."""

    requests: int = 0
    refused: int = 0
    """Requests that were answered with an error."""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    """Prompt tokens that were in the KV cache."""
    completion_tokens: int = 0
    usd: float = 0.0
    """Cost at the prices of `clients.prices`."""
    estimated: int = 0
    """Requests without reported tokens."""
    reused: int = 0
    """Requests answered from the cache (`clients.cache`), which used no tokens."""
    saved_usd: float = 0.0
    """Original cost of the cached answers."""

    def __add__(self, other: "Used") -> "Used":
        """Return the sum."""
        return Used(
            self.requests + other.requests,
            self.refused + other.refused,
            self.prompt_tokens + other.prompt_tokens,
            self.cached_tokens + other.cached_tokens,
            self.completion_tokens + other.completion_tokens,
            self.usd + other.usd,
            self.estimated + other.estimated,
            self.reused + other.reused,
            self.saved_usd + other.saved_usd,
        )


@dataclass(frozen=True)
class Row:
    """Usage for one value of each field."""

    names: tuple[str, ...]
    used: Used


def used_of(record: Mapping[str, Any]) -> tuple[dict[str, str], Used] | None:
    """Return the fields and the usage of a callout's record; None for any other line."""
    if "prompt_tokens" not in record or "team" not in record:
        return None
    names = {
        "day": str(record["time"])[:10],
        "key": str(record.get("key_id") or "-"),
        "model": str(record.get("model") or "-"),
        "region": str(record.get("region", "")),
        "subject": str(record.get("subject") or "-"),
        "team": str(record["team"]),
    }
    return names, Used(
        requests=1,
        refused=int(int(record.get("status", 0)) >= _FIRST_ERROR),
        prompt_tokens=int(record["prompt_tokens"]),
        cached_tokens=int(record.get("cached_tokens", 0)),
        completion_tokens=int(record.get("completion_tokens", 0)),
        usd=float(record.get("usd", 0)),
        estimated=int(bool(record.get("estimated", False))),
        reused=int(record.get("cache") == "hit"),
        saved_usd=float(record.get("saved_usd", 0)),
    )


def added_up(records: Iterable[Mapping[str, Any]], by: Sequence[str]) -> list[Row]:
    """Return usage by some of `FIELDS`, sorted by their values."""
    found: dict[tuple[str, ...], Used] = {}
    for record in records:
        one = used_of(record)
        if one is not None:
            names = tuple(one[0][field] for field in by)
            found[names] = found.get(names, Used()) + one[1]
    return [Row(names, used) for names, used in sorted(found.items())]


def print_usage(rows: Sequence[Row], by: Sequence[str]) -> None:
    """Print usage as a table with a total."""
    table = Listing(
        *(field.upper() for field in by), figure("REQUESTS"), figure("REFUSED", spare=1),
        figure("PROMPT"), figure("CACHED", spare=2), figure("COMPLETION"), figure("$"),
        figure("ESTIMATED", spare=3), figure("REUSED", spare=4), figure("$ SAVED", spare=4),
    )  # fmt: skip
    whole = sum((row.used for row in rows), Used())
    blank = ("all", *([""] * (len(by) - 1)))
    for names, used in (*((row.names, row.used) for row in rows), (blank, whole)):
        table.add_row(
            *names,
            f"{used.requests:,}",
            f"{used.refused:,}",
            f"{used.prompt_tokens:,}",
            f"{used.cached_tokens:,}",
            f"{used.completion_tokens:,}",
            f"{used.usd:,.4f}",
            f"{used.estimated:,}",
            f"{used.reused:,}",
            f"{used.saved_usd:,.4f}",
        )
    print_table(table)


def as_data(rows: Sequence[Row], by: Sequence[str]) -> list[dict[str, Any]]:
    """Return usage as data: an object for each row."""
    return [_plain(row, by) for row in rows]


def as_csv(rows: Sequence[Row], by: Sequence[str]) -> str:
    """Return usage as CSV with a header."""
    fields = _plain(Row(("",) * len(by), Used()), by)
    return csv_of([_plain(row, by) for row in rows], list(fields))


def csv_of(rows: Sequence[Mapping[str, Any]], fields: Sequence[str] = ()) -> str:
    """Return rows as CSV with a header; without `fields`, it is of those of the first row."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fields or list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _plain(row: Row, by: Sequence[str]) -> dict[str, Any]:
    return {
        **dict(zip(by, row.names, strict=True)),
        "requests": row.used.requests,
        "refused": row.used.refused,
        "prompt_tokens": row.used.prompt_tokens,
        "cached_tokens": row.used.cached_tokens,
        "completion_tokens": row.used.completion_tokens,
        "usd": round(row.used.usd, 9),
        "estimated": row.used.estimated,
        "reused": row.used.reused,
        "saved_usd": round(row.used.saved_usd, 9),
    }
