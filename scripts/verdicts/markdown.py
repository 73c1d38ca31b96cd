"""The verdict as a pull request comment: a short summary, with details in folded sections."""

from collections.abc import Iterable, Iterator, Sequence

from planner.amount import NOTHING, Amount, AmountRange, price_notes
from planner.choice.cost import FIELDS
from scripts.verdicts.capacity import Asked
from scripts.verdicts.changes import Change
from scripts.verdicts.diagrams import mermaid
from scripts.verdicts.money import Money
from scripts.verdicts.moves import Move
from scripts.verdicts.rehearsed import Rehearsed, shown
from scripts.verdicts.rows import Row, counted, rows_of
from scripts.verdicts.rules import Breach, Compared
from scripts.verdicts.verdict import Side, StackVerdict, Verdict

MARKER = "<!-- gke-inference verdict -->"
"""First line of the comment; the next run finds the comment by it."""
_MOST_LETTERS = 60_000
"""GitHub accepts 65,536 characters in a comment."""
_ROWS = (40, 12, 4, 1)
"""Row limits of a table, tried in order until the comment is short enough."""
_MOST_REASONS = 10
_HEAD = {
    "blocked": "🛑 blocked",
    "not compared": "⚠️ not compared",
    "destroys": "⚠️ destroys",
    "replaces": "⚠️ replaces",
    "restarts": "🔁 restarts",
    "safe": "✅ safe",
    "no change": "✅ no change",
}


def comment(verdict: Verdict) -> str:
    """Return the comment; if it is too long, shorten its tables and leave out diagrams."""
    texts = (_comment(verdict, most) for most in _ROWS)
    return next((text for text in texts if len(text) <= _MOST_LETTERS), _comment(verdict, 0))


def _comment(verdict: Verdict, most: int) -> str:
    lines = [MARKER, f"## Verdict: {_HEAD[verdict.word]}", "", _compared(verdict), ""]
    reasons = verdict.blocks
    if reasons:
        lines += ["Blocked by:", *(f"- {plain(each)}" for each in reasons[:_MOST_REASONS])]
        if len(reasons) > _MOST_REASONS:
            lines.append(f"- and {len(reasons) - _MOST_REASONS} more")
        for each in verdict.stacks:
            if each.to_name:
                file = code(f"stacks/Pulumi.{each.stack}.yaml")
                lines += ["", f"To allow this, set in {file}: {code(each.allowance)}"]
        lines.append("")
    for each in verdict.stacks:
        lines += list(_stack(each, most))
    if verdict.untouched:
        names = ", ".join(code(name) for name in verdict.untouched)
        lines.append(f"Not affected by the changed files: {names}.")
    return "\n".join(lines).rstrip() + "\n"


def _compared(verdict: Verdict) -> str:
    return f"{plain(verdict.base)} against {plain(verdict.head)}, on the twin's engine."


def _stack(one: StackVerdict, most: int) -> Iterator[str]:
    yield f"### {code(one.stack)}: {_summary(one)}"
    yield ""
    if one.error:
        yield f"{plain(one.error)}"
        yield ""
        return
    if one.note:
        yield one.note
        yield ""
    for summary, body in (
        (f"{len(one.changes)} resources change", _changes(one.changes)),
        (f"Pods that restart: {pods(one.moves)}", _moves(one.moves)),
        (f"Cost: {cost_line(one.money)}", _money(one.money)),
        (f"Rehearsed day: {_day_line(one.rehearsal)}", _day(one.rehearsal)),
        (f"Capacity: {len(one.capacity)} quotas with a changed need", _capacity(one.capacity)),
        (f"Policies: {_counts(one.policies)}", _breaches(one.policies)),
        (f"Invariants: {_counts(one.invariants)}", _breaches(one.invariants)),
    ):
        yield from _folded(summary, _cut(body, most))
    drawn = mermaid(one.topology) if most == _ROWS[0] else ""
    if drawn:
        yield from _folded("Diagram of the changes", ["```mermaid", *drawn.splitlines(), "```"])


def _cut(lines: list[str], most: int) -> list[str]:
    """Return a table, cut to a number of rows."""
    shown = most + 2  # the header and the line below it
    if len(lines) <= shown:
        return lines
    return [*lines[:shown], "", f"and {len(lines) - shown} more, in the JSON beside this comment"]


def _summary(one: StackVerdict) -> str:
    if one.error:
        return "**does not preview**" if one.is_head_broken else "**not compared**"
    words = {Side.HEAD: "new stack, ", Side.BASE: "stack removed, ", Side.BOTH: ""}[one.side]
    moved = f", {pods(one.moves)} restart" if one.moves else ""
    return f"{words}{counted(one.changes)}{moved}, {cost_line(one.money)}"


def _folded(summary: str, body: Iterable[str]) -> Iterator[str]:
    """Yield a folded section; nothing if it is empty."""
    lines = list(body)
    if lines:
        yield f"<details><summary>{summary}</summary>"
        yield ""
        yield from lines
        yield ""
        yield "</details>"
        yield ""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return []
    return [_row(head), _row(["---"] * len(head)), *map(_row, rows)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _changes(changes: Sequence[Change]) -> list[str]:
    cells = [
        (row.kind.value, row.action, _resource(row), _because(row)) for row in rows_of(changes)
    ]
    return _table(("class", "action", "resource", "because"), cells)


def _resource(row: Row) -> str:
    return " ".join(part for part in (row.count, code(row.name)) if part)


def _because(row: Row) -> str:
    why = plain(row.why) or ", ".join(code(name) for name in row.names)
    more = f" and {row.more} more" if row.more else ""
    blocked = "**not named in `allow_replace`** " if row.is_blocked else ""
    return f"{blocked}{why}{more}"


def _moves(moves: Sequence[Move]) -> list[str]:
    rows = [(code(m.cluster), code(m.workload), m.pods, plain(m.why)) for m in moves]
    return _table(("cluster", "workload", "pods", "because"), rows)


def pods(moves: Sequence[Move]) -> str:
    """Return the numbers of restarting pods and of their workloads, as text."""
    low = sum(move.minimum or 0 for move in moves)
    high = sum(move.maximum or 0 for move in moves)
    many = str(low) if low == high else f"{low} to {high}"
    each_node = " and one a node" if any(move.minimum is None for move in moves) else ""
    return f"{many}{each_node} pods of {len(moves)} workloads"


def cost_line(money: Money) -> str:
    """Return the largest change among the minimum, expected and maximum monthly cost.

    If the expected cost changes by another amount, that change follows.
    """
    if money.before is None or money.after is None:
        side = money.after or money.before
        if side is None or money.note:
            return "cost not compared"
        return f"{'+' if money.after else '-'}{side.expected:$,.0f} a month expected"
    changes = {field: _change_of(field, money) for field in ("expected", "minimum", "maximum")}
    largest = max(changes, key=lambda field: abs(changes[field]))
    known = " at published prices" * money.lacks_price
    if not round(changes[largest]):
        return f"same cost{known}"
    named = "expected" if largest == "expected" else f"at {largest}"
    text = f"{_dollars(changes[largest])} a month {named}{known}"
    if largest != "expected" and round(changes["expected"]):
        text += f", {_dollars(changes['expected'])} expected"
    return text


def _change_of(field: str, money: Money) -> float:
    before, after = (getattr(side, field).value for side in (money.before, money.after))
    return after - before


def _dollars(change: float) -> str:
    return f"{'+' if change >= 0 else '-'}${abs(change):,.0f}"


def _money(money: Money) -> list[str]:
    lines = [plain(money.note), ""] if money.note else []
    same = money.before == money.after
    if not same:
        rows = [_amounts(field, money) for field in FIELDS]
        rows += [
            (
                code(" in ".join(filter(None, (row.model or row.group, row.region)))),
                *_both(row.before, row.after),
            )
            for row in money.rows
        ]
        lines += [*_table(("$ a month", "before", "after", "change"), rows), ""]
    rows = [
        (
            code(unit.model),
            unit.unit,
            "none" if unit.is_new else _estimate(unit.before),
            "none" if unit.is_gone else _estimate(unit.after),
        )
        for unit in money.units
    ]
    lines += _table(("model", "$ for a", "before", "after"), rows)
    notes = price_notes([money.every])
    if lines and notes:
        lines += ["", *(f"- {plain(text)}" for text in notes)]
    return lines


def _amounts(field: str, money: Money) -> tuple[str, str, str, str]:
    before, after = (getattr(side, field) if side else None for side in (money.before, money.after))
    return field, *_both(before, after)


def _both(before: Amount | None, after: Amount | None) -> tuple[str, str, str]:
    shown = ["none" if each is None else f"{each:,.0f}" for each in (before, after)]
    change = (after or NOTHING).value - (before or NOTHING).value
    return shown[0], shown[1], _dollars(change)


def _day_line(day: Rehearsed) -> str:
    """Return what fails, or that nothing does."""
    failing = [each.name for each in day.lines if each.fails]
    return f"broken: {plain(', '.join(failing))}" if failing else "objectives kept"


def _day(day: Rehearsed) -> list[str]:
    if not day.traffic:
        return []
    if day.problem:
        return [plain(day.problem)]
    rows = [
        (
            plain(each.name), shown(each.before, each.unit), shown(each.after, each.unit),
            f"{each.change:+,.2f}" if each.unit else f"{each.change:+,.0f}",
            "" if each.limit is None else shown(each.limit, each.unit),
            "**fails**" if each.fails else "",
        )
        for each in day.lines
    ]  # fmt: skip
    head = (f"{day.hours:g} h of {code(day.traffic)}", "before", "after", "Δ", "at most", "")
    return _table(head, rows)


def _capacity(rows: Sequence[Asked]) -> list[str]:
    cells = [
        (
            code(each.accelerator or each.quota),
            code(each.quota) if each.accelerator else "",
            code(each.region) if each.region else "whole project",
            f"{each.before:,}",
            f"{each.after:,}",
        )
        for each in rows
    ]
    return _table(("at most", "quota", "region", "before", "after"), cells)


def _estimate(found: AmountRange | None) -> str:
    if found is None:
        return "not known"
    low, high = (f"{end:unit}" for end in (found.low, found.high))
    return f"{found.value:unit} ({low} to {high})"


def _counts(found: Compared) -> str:
    groups = ((found.new, "new"), (found.standing, "unchanged"))
    parts = [f"{_many_breaches(each)} ({word})" for each, word in groups if each]
    parts += [f"{len(found.fixed)} fixed"] if found.fixed else []
    return ", ".join(parts) or "none broken"


def _many_breaches(group: Sequence[Breach]) -> str:
    hard = sum(each.is_blocking for each in group)
    soft = len(group) - hard
    parts = [f"{hard} broken"] * bool(hard) + [f"{soft} advised against"] * bool(soft)
    return " and ".join(parts)


def _breaches(found: Compared) -> list[str]:
    standing = tuple(each for each in found.standing if each.is_blocking)
    groups = (("newly broken", found.new), ("fixed", found.fixed), ("still broken", standing))
    rows = [_breach(word, each) for word, group in groups for each in group]
    return _table(("", "rule", "where", "what"), rows)


def _breach(word: str, breach: Breach) -> tuple[str, str, str, str]:
    advice = "" if breach.is_blocking else " (advice)"
    return (f"{word}{advice}", code(breach.rule), code(breach.where), plain(breach.says))


def code(text: str) -> str:
    """Return a text as code in a table, with markup and mentions disabled."""
    flat = " ".join(text.split()).replace("`", "'").replace("|", "\\|")
    return f"`{flat}`" if flat else ""


_MARKS = str.maketrans({char: f"\\{char}" for char in "\\`*_[]<>|#~!"} | {"@": "@\u200b"})


def plain(text: str) -> str:
    """Return a text with markup and mentions disabled."""
    return " ".join(text.split()).translate(_MARKS)
