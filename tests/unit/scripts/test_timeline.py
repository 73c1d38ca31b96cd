"""The events of a scenario as a table."""

import io

import pytest
from rich.console import Console

from scripts.operate.timeline import event_table
from scripts.terminal.tables import room_of


def event(time, kind, message):
    return {"time": 1000.0 + time, "kind": kind, "subject": "s", "message": message}


PATH = (
    "projects/acme-inference-local/zones/us-central1-b/reservations/v6e-local-of-a-long-name-indeed"
)
EVENTS = [
    event(4, "node.ready", "g2-standard-12 us-central1-a"),
    event(0, "scenario.step", "the TPU v6e reservation is withdrawn"),
    event(1, "rung.stockout", f"Specified reservation '{PATH}' does not have available resources"),
]


def drawn(width, *, is_terminal):
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=is_terminal, color_system=None)
    console.print(event_table(EVENTS, 100, room_of(console)), soft_wrap=True)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_the_events_of_a_scenario_fit_the_terminal(width):
    lines = drawn(width, is_terminal=True)
    assert max(map(len, lines)) <= width
    assert "scenario.step  the TPU v6e" in lines[2]


def test_events_that_are_piped_fit_100_columns(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert max(map(len, drawn(160, is_terminal=False))) <= 100


def test_a_path_that_is_longer_than_a_line_breaks_after_a_slash():
    lines = drawn(80, is_terminal=True)
    assert "'projects/acme-inference-local/zones/" in " ".join(lines)
    assert "".join(" ".join(lines[3:]).split()).count(PATH) == 1


def test_the_table_shows_both_clocks_and_the_speed_oldest_first():
    title, head, *rows = drawn(100, is_terminal=True)
    assert title == "Timeline, 100 times faster than Google's clock"
    assert head.split() == ["TWIN", "WALL", "EVENT", "MESSAGE"]
    assert rows[0].split(maxsplit=3)[:3] == ["0:00", "0.0s", "scenario.step"]
    assert rows[-1].split(maxsplit=3) == [
        "6:40",
        "4.0s",
        "node.ready",
        "g2-standard-12 us-central1-a",
    ]
