"""The verdict as lines for a terminal: the comment without its cost tables."""

from collections.abc import Iterator

from scripts.verdicts.capacity import Asked
from scripts.verdicts.markdown import cost_line, pods
from scripts.verdicts.rehearsed import Line, shown
from scripts.verdicts.rows import Row, counted, rows_of
from scripts.verdicts.verdict import StackVerdict, Verdict


def lines(verdict: Verdict) -> Iterator[str]:
    """Yield the lines: the verdict, what blocks the change, then each stack."""
    yield f"{verdict.word}: {verdict.base} against {verdict.head}"
    for text in verdict.blocks:
        yield f"  blocked by {text}"
    for one in verdict.stacks:
        if one.to_name:
            yield f"  to allow this, set in stacks/Pulumi.{one.stack}.yaml: {one.allowance}"
    for one in verdict.stacks:
        yield from _stack(one)
    for name in verdict.untouched:
        yield f"{name}: not affected by the changed files"


def _stack(one: StackVerdict) -> Iterator[str]:
    if one.error:
        yield f"{one.stack}: {one.error}"
        return
    if one.note:
        yield f"{one.stack}: {one.note}"
    moved = f"; {pods(one.moves)} restart" if one.moves else ""
    said = f"{one.stack}: {counted(one.changes)}, {one.unchanged} unchanged{moved}"
    yield f"{said}; {cost_line(one.money)} ({one.seconds:.0f} s)"
    for row in rows_of(one.changes):
        yield _change(row)
    for asked in one.capacity:
        yield _quota(asked)
    for line in one.rehearsal.lines:
        yield _figure(line)


def _change(row: Row) -> str:
    what = " ".join(part for part in (row.count, row.name) if part)
    why = row.why or ", ".join(row.names)
    more = f" and {row.more} more" if row.more else ""
    said = f": {why}{more}" if why else ""
    return f"  {row.kind.value:<9} {row.action:<8} {what}{said}"


def _quota(asked: Asked) -> str:
    """Return the maximum need of a quota before and after the change, as text."""
    name = f"{asked.accelerator} ({asked.quota})" if asked.accelerator else asked.quota
    where = asked.region or "the whole project"
    return f"  quota              {name} in {where}: {asked.before:,} to {asked.after:,} at most"


def _figure(line: Line) -> str:
    """Return a figure of the rehearsed day before and after the change, as text."""
    sides = f"{shown(line.before, line.unit)} to {shown(line.after, line.unit)}"
    limit = "" if line.limit is None else f", at most {shown(line.limit, line.unit)}"
    return f"  rehearsal          {line.name}: {sides}{limit}{' FAILS' * line.fails}"
