"""The command line's tables: no width and no pipe loses text."""

import io
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from scripts.terminal.tables import Column, Listing, figure, prose
from twin.host.paths import REPOSITORY

_WORD = st.text(alphabet="abé-/:0漢", min_size=1, max_size=30)
_CELL = st.lists(_WORD, max_size=4).map(" ".join)
_TITLES = ("NAME", "TWO WORDS", "FIGURE", "PROSE")


def drawn(table: Listing, width: int, *, is_terminal: bool = True) -> str:
    """Return what a console of a width shows of a table."""
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=is_terminal, color_system=None)
    console.print(table, soft_wrap=True)
    return out.getvalue()


@given(
    rows=st.lists(st.tuples(*[_CELL] * 5), min_size=1, max_size=4),
    width=st.integers(20, 200),
    spare=st.tuples(*[st.integers(0, 2)] * 4),
)
def test_no_width_cuts_or_breaks_a_word(rows, width, spare) -> None:
    table = Listing(
        _TITLES[0], Column(_TITLES[1], spare[0]), figure(_TITLES[2], spare[1]),
        prose(_TITLES[3], spare[2]), Column("", spare[3]),
    )  # fmt: skip
    for row in rows:
        table.add_row(*row, notes=["a note"])
    shown = drawn(table, width)
    words = Counter(word for row in rows for cell in row for word in cell.split())
    assert words <= Counter(shown.split())
    widest = max(cell_len(word) for row in rows for cell in row for word in (*cell.split(), "NAME"))
    assert all(cell_len(line) <= max(width, 4 + widest) for line in shown.splitlines())


def test_rows_that_are_piped_are_one_line_each(monkeypatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    table = Listing("NAME", *(Column(f"COLUMN {number}", spare=1) for number in range(20)))
    for name in ("first", "second"):
        table.add_row(name, *["a few words"] * 20)
    assert len(drawn(table, 80, is_terminal=False).splitlines()) == 3


def test_no_line_ends_with_spaces() -> None:
    table = Listing("MODEL", "NOTE")
    table.add_row("llama-3.1-8b", "")
    assert drawn(table, 80).splitlines() == ["MODEL         NOTE", "llama-3.1-8b"]


def test_low_priority_columns_move_to_a_second_line_with_their_titles() -> None:
    table = Listing("MODEL", figure("TOTAL"), figure("NODE", spare=2), figure("POD", spare=1))
    table.add_row("llama-3.1-8b", "409 s", "210", "60", notes=["warm"])
    below = ["    NODE 210  POD 60", "    warm"]
    assert drawn(table, 23).splitlines() == ["MODEL         TOTAL", "llama-3.1-8b  409 s", *below]
    assert drawn(table, 24).splitlines()[1:3] == ["llama-3.1-8b  409 s   60", "    NODE 210"]
    assert len(drawn(table, 30).splitlines()) == 3


def test_sentences_wrap_before_a_column_moves() -> None:
    table = Listing("RULE", prose("WHY"), Column("FIX", spare=1))
    table.add_row("a-rule", "a sentence that says at length why it does not hold", "fix it")
    assert len(drawn(table, 60).splitlines()) == 3
    assert "FIX fix it" not in drawn(table, 60)


def test_a_word_wider_than_the_terminal_stays_in_one_piece() -> None:
    table = Listing("IMAGE", Column("REFERENCE", spare=1))
    table.add_row("epp", "registry.example.com/epp@sha256:0123456789")
    assert drawn(table, 20).splitlines() == [
        "IMAGE", "epp", "    REFERENCE", "    registry.example.com/epp@sha256:0123456789",
    ]  # fmt: skip


def test_a_row_has_a_cell_for_each_column() -> None:
    with pytest.raises(ValueError, match="cells: must be 2, got 1"):
        Listing("A", "B").add_row("a")


def test_brackets_in_a_cell_are_not_markup() -> None:
    table = Listing("A")
    table.add_row("spec.rungs[0] [bold]")
    assert "spec.rungs[0] [bold]" in drawn(table, 80)


def test_every_table_of_a_command_is_made_by_these_rules() -> None:
    others = [
        str(file.relative_to(REPOSITORY))
        for folder in ("bench", "scripts")
        for file in sorted((REPOSITORY / folder).rglob("*.py"))
        if re.search(r"rich(\.table| import .*\bTable\b)", file.read_text())
    ]
    assert others == ["scripts/terminal/tables.py"]
