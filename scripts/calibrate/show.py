"""Comparisons as a table."""

from collections.abc import Sequence

from scripts.calibrate.comparing import Comparison
from scripts.terminal.tables import Column, Listing, figure, measured, print_table, prose

_NOTHING = measured(None, "")


def print_comparisons(rows: Sequence[Comparison]) -> None:
    """Print a row for each model and rung."""
    table = Listing(
        "MODEL", prose("RUNG"), Column("REGION", 1), figure("REPLICAS", 2), figure("PREDICTED MS"),
        figure("MEASURED MS"), figure("FACTOR"), figure("95 % INTERVAL"),
        figure("PLANNER MS", 3), figure("BATCH", 4), figure("TTFT MS", 4),
        figure("QUEUE MS", 4), figure("CACHED", 4), prose("VERDICT"),
    )  # fmt: skip
    for row in rows:
        table.add_row(*_cells(row))
    print_table(table)


def _cells(row: Comparison) -> list[str]:
    result, planned, found = row.result, row.planned(), row.found
    first, queue = found.mean("first_seconds", "prompts"), found.mean("queue_seconds", "queued")
    head = [row.model, row.rung, row.region or _NOTHING, str(found.replicas)]
    tail = [
        measured(None if first is None else 1e3 * first, ",.0f"),
        measured(None if queue is None else 1e3 * queue, ",.0f"),
        measured(found.mean("cached_tokens", "prompt_tokens"), ".0%"),
        row.verdict,
    ]
    if result is None:
        return [*head, *[_NOTHING] * 6, *tail]
    return [
        *head,
        f"{1e3 * result.model_seconds:.1f}", f"{1e3 * result.tpot_seconds:.1f}",
        f"{result.factor:.2f}", f"{result.low:.2f}-{result.high:.2f}",
        _NOTHING if planned is None
        else f"{planned.tpot_ms:.1f} ({planned.low:.1f}-{planned.high:.1f})",
        f"{result.batch:.1f}",
        *tail,
    ]  # fmt: skip
