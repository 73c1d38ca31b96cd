"""The costs of example stacks in guides: a table between two comments, from the stack's file."""

import re
import textwrap
from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Final

from infra.estimate.cost_parts import ACCELERATORS
from infra.estimate.stack_cost import StackCost, stack_cost
from infra.plan import resolve
from infra.reading.load import STACKS, read
from planner.amount import HOURS_PER_MONTH, UNVERIFIED_MARK, Amount, total
from planner.choice.cost import FIELDS
from twin.host.paths import REPOSITORY

_DOCS: Final = REPOSITORY / "docs"
_BLOCK: Final = re.compile(
    r"(?P<start><!-- cost of (?P<file>[^\s:]+)(?:: (?P<parts>[^>]*?))? -->\n)"
    r".*?(?P<end><!-- end of cost -->)",
    re.DOTALL,
)
_SMALL: Final = 10.0
"""Dollars below which an amount is shown to the cent."""
_NAMED: Final = 5
"""Number of items without a price that are named."""
_LINE: Final = 140
_MARKED: Final = f"`{UNVERIFIED_MARK}` rests on unverified prices. "


def pages_with_costs() -> dict[str, Callable[[], str]]:
    """Return the pages of `docs` with such a table, each with a function that returns its text."""
    return {
        page.relative_to(REPOSITORY).as_posix(): partial(page_with_costs, page)
        for page in sorted(_DOCS.glob("*.md"))
        if _BLOCK.search(page.read_text())
    }


def page_with_costs(page: Path) -> str:
    """Return a page with updated tables of costs."""
    return _BLOCK.sub(lambda block: _updated(page, block), page.read_text())


def _updated(page: Path, block: re.Match[str]) -> str:
    names = [name.strip() for name in (block["parts"] or "").split(";") if name.strip()]
    return f"{block['start']}{_table(page, block['file'], names)}{block['end']}"


def _table(page: Path, link: str, names: list[str]) -> str:
    """Return the costs of a stack as text.

    Args:
        page: Page with the table.
        link: Path of the stack file from the page.
        names: Beginnings of the parts or of `MODEL ROLE` that get a line of their own.

    Raises:
        ValueError: A name matches nothing.
    """
    file = (page.parent / link).resolve()
    name = file.name.removeprefix("Pulumi.").removesuffix(".yaml")
    found = stack_cost(resolve(read(name, file.parent, with_digests=False)))
    totals = [found.total(field) for field in FIELDS]
    accelerators = [found.by_group[ACCELERATORS].total(field) for field in FIELDS]
    rows = [(f"stack [`{name}`]({link})", totals), ("its accelerators", accelerators)]
    cells = [(what, [_of_month(amount) for amount in amounts]) for what, amounts in rows]
    for each in names:
        cells += [
            (what, [_of_part(one) for one in amounts]) for what, amounts in _rows(found, each, page)
        ]
    lines = [
        "| US dollars a month, at list prices | minimum | expected | maximum |",
        "|---|---|---|---|",
        *(f"| {what} | {' | '.join(amounts)} |" for what, amounts in cells),
    ]
    marked = any(UNVERIFIED_MARK in one for _, amounts in cells for one in amounts)
    text = (
        f"{_MARKED if marked else ''}{_unpriced(found)}Every part, its source and the assumptions:"
    )
    wrapped = textwrap.fill(text, _LINE, break_long_words=False, break_on_hyphens=False)
    return "\n".join(["", *lines, "", wrapped, "", "```sh", _command(file, name), "```", "", ""])


def _rows(found: StackCost, name: str, page: Path) -> Iterator[tuple[str, list[Amount]]]:
    of_parts = [(each.what, each) for each in found.parts]
    of_lines = [(f"{each.served.model} {each.served.role}", each) for each in found.bill.lines]
    matching = sorted(
        (each for each in (*of_parts, *of_lines) if each[0].startswith(name)),
        key=lambda each: each[0],
    )
    if not matching:
        raise ValueError(f"{page.name}: {name!r} must be the beginning of a part of the cost")
    for what, each in groupby(matching, key=lambda each: each[0]):
        ones = [one for _, one in each]
        amounts = [total(getattr(one, field) for one in ones) for field in FIELDS]
        if any(amount.value or amount.missing for amount in amounts):
            yield what, amounts


def _of_month(amount: Amount) -> str:
    month = amount * HOURS_PER_MONTH
    return format(month, ",.0f" if not month.value or month.value >= _SMALL else ",.2f")


def _of_part(amount: Amount) -> str:
    if amount.is_unknown:
        return "no price" if any(not each.option for each in amount.missing) else "unknown"
    return f"{_of_month(amount)}{' or more' if amount.missing else ''}"


def _unpriced(found: StackCost) -> str:
    missing = {each.what for each in found.missing if not each.option}
    unknown = {each.what for each in found.missing if each.option}
    priced = {part.what for part in found.parts if part.maximum.value}
    return "".join(
        f"{said}: {_listed(sorted(names))}. "
        for said, names in (
            ("Without a published price, and in no total", missing - priced),
            ("Included only in part, for lack of a published price", missing & priced),
            ("Of unknown quantity, and in no total", unknown),
        )
        if names
    )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{'; '.join(names[:_NAMED])}{more}"


def _command(file: Path, name: str) -> str:
    command = f"gke-inference cost --stack {name}"
    if file.parent == STACKS:
        return command
    folder = file.parent.relative_to(REPOSITORY).as_posix()
    return f"cp {folder}/Pulumi.*.yaml stacks/ && {command}"
