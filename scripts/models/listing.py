"""`models list`: the versions in each region, as a table or as JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.text import Text

from scripts.models.actions import Row
from scripts.models.progress import size_text
from scripts.terminal.tables import Column, Listing, figure, print_table

_STYLES = {"complete": "green", "half-uploaded": "yellow", "damaged": "red"}


def print_list(rows: Sequence[Row]) -> None:
    """Print the versions as a table."""
    table = Listing(
        "MODEL", "REGION", "VERSION", figure("SIZE"), "STATE", "USED",
        Column("CREATED", spare=1), Column("BUCKET", spare=2),
    )  # fmt: skip
    for row in rows:
        regions = ", ".join(row.place.regions)
        state = row.state
        if state is None:
            table.add_row(row.model, regions, "-", "", "nothing", "", "", row.place.home.uri)
            continue
        size = size_text(state.size)
        if state.expected_size is not None and state.expected_size != state.size:
            size = f"{size} of {size_text(state.expected_size)}"
        words = [
            word
            for word, holds in (("current", state.is_current), ("by the stack", row.is_used))
            if holds
        ]
        table.add_row(
            row.model,
            regions,
            state.version,
            size,
            Text(state.state, style=_STYLES[state.state]),
            ", ".join(words),
            state.created or "",
            row.place.home.uri,
            notes=[state.note] if state.note else [],
        )
    print_table(table)


def as_data(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the versions as data: an object for each model and bucket."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        entry = found.setdefault(
            (row.model, row.place.home.bucket),
            {
                "model": row.model,
                "regions": list(row.place.regions),
                "uri": row.place.home.uri,
                "versions": [],
            },
        )
        if row.state is not None:
            entry["versions"].append({**asdict(row.state), "is_used": row.is_used})
    return list(found.values())
