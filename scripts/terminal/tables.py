"""Tables for people, printed with rich; no text is cut at any width.

In narrow terminals, sentences wrap first, then low-priority columns move to a second line, then
names wrap. Piped output keeps every column in its row, so that `grep` and `awk` find rows, unless
`COLUMNS` gives a width; only sentences wrap.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from scripts.terminal.console import console

_GAP, _INDENT = 2, 4
_PIPED_WIDTH = 100
"""Width of piped tables whose last column is long sentences."""
_PROSE = 24
"""Minimum width of a column of sentences, if its text is that long."""


@dataclass(frozen=True)
class Column:
    """A column, with its title and its behavior in a narrow terminal."""

    title: str
    spare: int = 0
    """Priority for moving to the second line, highest first; 0 for never."""
    is_right: bool = False
    folds: bool = True
    """Whether the text may wrap between words."""
    is_prose: bool = False
    """Whether the text is sentences, which wrap before columns move, and in piped output."""


def figure(title: str, spare: int = 0) -> Column:
    """Return a column of figures: right-aligned, never wrapped."""
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
    """Rows under titles; `print_table` prints it."""

    def __init__(
        self, *columns: Column | str, title: str = "", is_spaced: bool = False, room: int = 0
    ) -> None:
        """Take the columns from left to right; a string is a column with that title.

        Args:
            columns: Columns; the first always stays in its row.
            title: Line above the table.
            is_spaced: Whether an empty line separates rows.
            room: Width that the table does not exceed on wider consoles; 0 for the console's.
        """
        self.columns = [Column(one) if isinstance(one, str) else one for one in columns]
        self._title, self._is_spaced, self._room = title, is_spaced, room
        self._rows: list[_Row] = []

    @property
    def row_count(self) -> int:
        """Number of rows."""
        return len(self._rows)

    def add_row(self, *cells: str | Text, style: str = "", notes: Sequence[str] = ()) -> None:
        """Add a row; brackets in a cell are not markup.

        Args:
            cells: One cell per column.
            style: Style of the whole row, as rich names it.
            notes: Lines under the row, indented.

        Raises:
            ValueError: The number of cells differs from the number of columns.
        """
        if len(cells) != len(self.columns):
            raise ValueError(f"cells: must be {len(self.columns)}, got {len(cells)}")
        texts = tuple(Text(cell) if isinstance(cell, str) else cell for cell in cells)
        self._rows.append(_Row(texts, style, tuple(notes)))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines for a width."""
        is_piped = not options.is_terminal and not os.environ.get("COLUMNS")
        room = min(options.max_width, self._room or options.max_width)
        widths = self._widths(room, is_piped=is_piped)
        for part, least in self._parts(widths):
            width = max(room, least)
            wrapped = options.update(width=width, no_wrap=False, overflow="fold")
            for line in console.render_lines(part, wrapped):
                yield _without_trailing_space(line)

    def _parts(self, widths: dict[int, int]) -> Iterator[tuple[RenderableType, int]]:
        """Yield each part of the table, with the minimum width that breaks no word."""
        if self._title:
            yield Text(self._title, style="bold"), 0
        titles = [Text(column.title, style="bold") for column in self.columns]
        if any(titles[number] for number in widths):
            yield self._grid(titles, widths), _total(widths)
        for index, row in enumerate(self._rows):
            if index and self._is_spaced:
                yield Text(), 0
            yield self._grid(row.cells, widths, row.style), _total(widths)
            for text in (*self._second_line(row.cells, widths), *map(Text, row.notes)):
                padding = Padding(text, (0, 0, 0, _INDENT), style=row.style)
                yield padding, _INDENT + _longest_word(text.plain)

    def _grid(self, cells: Sequence[Text], widths: dict[int, int], style: str = "") -> Table:
        """Return one row with fixed widths, so that rows align."""
        grid = Table.grid(padding=(0, _GAP, 0, 0))
        for number, width in widths.items():
            justify = "right" if self.columns[number].is_right else "left"
            grid.add_column(width=width, justify=justify, overflow="fold")
        grid.add_row(*(cells[number] for number in widths), style=style)
        return grid

    def _second_line(self, cells: Sequence[Text], widths: dict[int, int]) -> Iterator[Text]:
        """Yield the titles and cells of columns that moved out of the row."""
        parts = [
            Text.assemble((f"{column.title} " if column.title else "", "dim"), cell)
            for number, (column, cell) in enumerate(zip(self.columns, cells, strict=True))
            if number not in widths and cell.plain.strip()
        ]
        if parts:
            yield Text(" " * _GAP).join(parts)

    def _widths(self, room: int, *, is_piped: bool) -> dict[int, int]:
        """Return the widths of the columns that stay in the row, by index."""
        full = {number: self._widest(number) for number in range(len(self.columns))}
        least: dict[int, int] = {}
        for names_wrap, most_spare in self._choices():
            least = {
                number: self._least(number, names_wrap=names_wrap)
                for number, column in enumerate(self.columns)
                if number == 0 or column.spare <= most_spare
            }
            if is_piped:
                lines = {n: least[n] if self.columns[n].is_prose else full[n] for n in least}
                return _shrink(full, least, max(room, _total(lines)))
            if _total(least) <= room:
                break
        return _shrink({number: full[number] for number in least}, least, room)

    def _choices(self) -> Iterator[tuple[bool, int]]:
        """Yield whether names wrap, and the highest `spare` that stays, widest table first."""
        spares = sorted({column.spare for column in self.columns} | {0}, reverse=True)
        yield from ((False, spare) for spare in spares)
        yield from ((True, spare) for spare in (0, -1))

    def _lines(self, number: int) -> list[str]:
        return [line for row in self._rows for line in row.cells[number].plain.split("\n")]

    def _widest(self, number: int) -> int:
        return max(map(cell_len, [self.columns[number].title, *self._lines(number)]))

    def _least(self, number: int, *, names_wrap: bool) -> int:
        """Return the minimum width of a column that breaks no word."""
        column, lines = self.columns[number], self._lines(number)
        word = _longest_word(" ".join((column.title, *lines)))
        widest = max(map(cell_len, lines), default=0)
        if column.is_prose:
            return max(word, min(widest, _PROSE))
        return word if names_wrap and column.folds else max(word, widest)


def measured(value: float | None, form: str) -> str:
    """Return a figure in a format; a dash if there is none."""
    return "-" if value is None else f"{value:{form}}"


def room_of(console: Console) -> int:
    """Return the width for a table, in columns."""
    is_piped = not console.is_terminal and not os.environ.get("COLUMNS")
    return min(console.width, _PIPED_WIDTH) if is_piped else console.width


def print_table(table: Listing) -> None:
    """Print a table on the program's console."""
    console.print(table, soft_wrap=True)


def _longest_word(text: str) -> int:
    return max(map(cell_len, text.split()), default=1)


def _total(widths: dict[int, int]) -> int:
    return sum(widths.values()) + _GAP * (len(widths) - 1)


def _shrink(full: dict[int, int], least: dict[int, int], room: int) -> dict[int, int]:
    """Return widths that fit where possible: the widest columns shrink first."""
    widths = dict(full)
    while _total(widths) > room:
        able = [number for number in widths if widths[number] > least[number]]
        if not able:
            break
        widths[max(able, key=widths.__getitem__)] -= 1
    return widths


def _without_trailing_space(line: list[Segment]) -> Text:
    text = Text.assemble(*((part.text, part.style or "") for part in line))
    text.rstrip()
    text.no_wrap, text.overflow = True, "ignore"
    return text
