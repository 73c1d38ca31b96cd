"""Tables for people: whatever the width, no word of them is cut.

Where width lacks, titles and prose fold between words first, then the least columns go into a line
below their row, then names fold between words, then more columns go below. A word wider than the
screen is left whole, and the terminal goes on with it in its next line, so that it can be copied.
Output that is piped has one line a row, whatever its width, so that `grep` and `awk` find rows.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from scripts.console import console

_GAP = 2
_BELOW, _GOES_ON = 4, 6  # indents of a line below a row, and of its further lines
_PROSE = 24
"""Columns that prose keeps at least, if it has as much to say."""


@dataclass(frozen=True)
class Column:
    """One column: its title, and what becomes of it where width lacks."""

    title: str
    spare: int = 0
    """The higher, the sooner it goes into a line below, with all of its number; 0: only when the
    others went and folded names do not fit."""
    is_right: bool = False
    folds: bool = True
    """Whether it may fold between words at all."""
    is_prose: bool = False
    """Sentences: they fold before any column goes below, and also when piped."""


def figure(title: str, spare: int = 0) -> Column:
    """Return a column of figures: flush right, never folded."""
    return Column(title, spare, is_right=True, folds=False)


def prose(title: str, spare: int = 0) -> Column:
    """Return a column of sentences."""
    return Column(title, spare, is_prose=True)


@dataclass(frozen=True)
class _Row:
    cells: tuple[Text, ...]
    style: str
    notes: tuple[str, ...]


class Listing:
    """Rows under titles; rich prints it, and `print_table` does so with the console."""

    def __init__(self, *columns: Column | str, title: str = "", is_spaced: bool = False) -> None:
        """Take the columns, from the left; a word is a column with that title.

        Args:
            columns: the first always stays in its row.
            title: printed before, on a line of its own.
            is_spaced: put an empty line between rows: they are long.
        """
        self.columns = [Column(one) if isinstance(one, str) else one for one in columns]
        self._title, self._is_spaced = title, is_spaced
        self._rows: list[_Row] = []

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return len(self._rows)

    def add_row(self, *cells: str | Text, style: str = "", notes: Sequence[str] = ()) -> None:
        """Add a row; what is in brackets is no markup.

        Args:
            cells: one for each column.
            style: of the whole row, in rich's words.
            notes: a line each, indented under the row.

        Raises:
            ValueError: it has not one cell for each column.
        """
        if len(cells) != len(self.columns):
            raise ValueError(f"cells: must be {len(self.columns)}, got {len(cells)}")
        made = tuple(Text(cell) if isinstance(cell, str) else cell for cell in cells)
        self._rows.append(_Row(made, style, tuple(notes)))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines for a width."""
        is_piped = not options.is_terminal and not os.environ.get("COLUMNS")
        shown = self._layout(options.max_width, is_piped=is_piped)
        lines = list(self._lines(console, shown, options.max_width))
        for line in lines:
            line.rstrip()
            line.no_wrap, line.overflow = True, "ignore"
            yield line

    def _lines(self, console: Console, shown: dict[int, int], room: int) -> Iterator[Text]:
        if self._title:
            yield Text(self._title, style="bold")
        titles = [Text(column.title, style="bold") for column in self.columns]
        if any(titles[each] for each in shown):
            yield from self._row(console, titles, shown, is_title=True)
        for number, row in enumerate(self._rows):
            if number and self._is_spaced:
                yield Text()
            yield from _styled(self._row(console, row.cells, shown), row.style)
            yield from _styled(self._below(console, row.cells, shown, room), row.style)
            for note in row.notes:
                yield from _styled(_hanging(console, Text(note), room), row.style)

    def _row(
        self,
        console: Console,
        cells: Sequence[Text],
        shown: dict[int, int],
        *,
        is_title: bool = False,
    ) -> Iterator[Text]:
        """Yield the lines of the cells that stay in their row; titles stand on the last one."""
        folded = [
            [
                part
                for line in cells[each].split("\n", allow_blank=True)
                for part in line.wrap(console, max(width, 1), overflow="fold") or [Text()]
            ]
            for each, width in shown.items()
        ]
        height = max(len(lines) for lines in folded)
        for at in range(height):
            out = Text()
            for (each, width), lines in zip(shown.items(), folded, strict=True):
                found = at - (height - len(lines)) if is_title else at
                part = lines[found].copy() if 0 <= found < len(lines) else Text()
                part.rstrip()
                lacks = " " * max(0, width - part.cell_len)
                out.append(" " * _GAP if out or each != next(iter(shown)) else "")
                out.append_text(
                    Text.assemble(lacks, part)
                    if self.columns[each].is_right
                    else Text.assemble(part, lacks)
                )
            yield out

    def _below(
        self, console: Console, cells: Sequence[Text], shown: dict[int, int], room: int
    ) -> Iterator[Text]:
        """Yield the lines below a row: title and cell of each column that went there."""
        line = Text(" " * _BELOW)
        for each, cell in enumerate(cells):
            if each in shown or not cell.plain.strip():
                continue
            title = self.columns[each].title
            words = cell if "\n" not in cell.plain else Text(" ".join(cell.plain.split()))
            part = Text.assemble((f"{title} " if title else "", "dim"), words)
            is_first = line.cell_len == _BELOW
            if not is_first and line.cell_len + _GAP + part.cell_len > room:
                yield line
                line, is_first = Text(" " * _BELOW), True
            if is_first and _BELOW + part.cell_len > room:
                yield from _hanging(console, part, room)
                continue
            line.append("" if is_first else " " * _GAP)
            line.append_text(part)
        if line.cell_len > _BELOW:
            yield line

    def _layout(self, room: int, *, is_piped: bool) -> dict[int, int]:
        """Return the width of each column that stays in its row, by its number."""
        shown: list[int] = list(range(len(self.columns)))
        full = [self._width(each) for each in shown]
        if is_piped:
            kept = [self._least(each, names=False) for each in shown]
            lines = [kept[each] if self.columns[each].is_prose else full[each] for each in shown]
            room = max(room, _sum(lines))
        names = False
        while True:
            least = {each: self._least(each, names=names) for each in shown}
            if _sum(least.values()) <= room or len(shown) == 1:
                return _shrunk({each: full[each] for each in shown}, least, room)
            most = max(self.columns[each].spare for each in shown[1:])
            if most:
                shown = [each for each in shown if not each or self.columns[each].spare < most]
            elif names:
                shown = shown[:-1]
            else:
                names = True

    def _cells(self, each: int) -> list[str]:
        return [line for row in self._rows for line in row.cells[each].plain.split("\n")]

    def _width(self, each: int) -> int:
        return max(map(cell_len, [self.columns[each].title, *self._cells(each)]))

    def _least(self, each: int, *, names: bool) -> int:
        """Return how narrow a column may become.

        Args:
            each: its number.
            names: whether names may fold, too.
        """
        column = self.columns[each]
        title = _longest_word([column.title])
        widest = max(map(cell_len, self._cells(each)), default=0)
        word = _longest_word(self._cells(each))
        if column.is_prose:
            return max(title, word, min(widest, _PROSE))
        return max(title, word if names and column.folds else widest)


def print_table(table: Listing) -> None:
    """Print a table on the program's console; nothing of it is cropped."""
    console.print(table, soft_wrap=True)


def _styled(lines: Iterable[Text], style: str) -> Iterator[Text]:
    for line in lines:
        line.stylize_before(style)
        yield line


def _hanging(console: Console, part: Text, room: int) -> Iterator[Text]:
    """Yield a long text in lines of their own, the further ones indented more."""
    width = max(room - _GOES_ON, _longest_word([part.plain]))
    for number, line in enumerate(part.wrap(console, width, overflow="fold")):
        yield Text.assemble(" " * (_GOES_ON if number else _BELOW), line)


def _longest_word(lines: Iterable[str]) -> int:
    return max((cell_len(word) for line in lines for word in line.split()), default=0)


def _sum(widths: Iterable[int]) -> int:
    found = list(widths)
    return sum(found) + _GAP * (len(found) - 1)


def _shrunk(full: dict[int, int], least: dict[int, int], room: int) -> dict[int, int]:
    """Return widths that fit: the widest columns give first, none more than it may."""
    widths = dict(full)
    while _sum(widths.values()) > room:
        able = [each for each in widths if widths[each] > least[each]]
        if not able:
            break
        widest = max(able, key=lambda each: widths[each])
        widths[widest] -= 1
    return widths
