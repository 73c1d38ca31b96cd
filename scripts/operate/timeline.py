"""The events of a twin as a table.

Times appear on the twin's clock (the time that would have passed at Google) and in real time.
"""

from collections.abc import Sequence

from scripts.terminal.console import console
from scripts.terminal.tables import Listing, figure, print_table, prose, room_of
from twin.drawings.timeline import Event, clock, ordered

_STYLES = {
    "node.notice": "yellow",
    "node.removed": "yellow",
    "pod.pending": "yellow",
    "pod.ready": "green",
    "rung.chosen": "cyan",
    "rung.cooldown": "magenta",
    "rung.quota": "red",
    "rung.stockout": "red",
    "scenario.step": "bold",
}
_BESIDE = 36
"""Columns beside the message, at most."""
_LEAST = 24


def event_table(events: Sequence[Event], speed: float, room: int) -> Listing:
    """Return the events as a table, oldest first.

    Args:
        events: Events from `Events.read`.
        speed: Speed of the twin's clock relative to Google's.
        room: Width for the table, in columns. Longer words of messages break: paths of resources
            can be longer than a line.
    """
    title = f"Timeline, {speed:g} times faster than Google's clock"
    table = Listing(
        figure("TWIN"), figure("WALL", spare=1), "EVENT", prose("MESSAGE"), title=title, room=room
    )
    found = ordered(events)
    start = found[0]["time"] if found else 0.0
    for event in found:
        wall = event["time"] - start
        style = _STYLES.get(event["kind"], "")
        message = _broken(event["message"], max(_LEAST, room - _BESIDE))
        table.add_row(clock(wall * speed), f"{wall:.1f}s", event["kind"], message, style=style)
    return table


def print_events(events: Sequence[Event], speed: float) -> None:
    """Print the events as a table that fits the terminal, or 100 columns where it is piped."""
    print_table(event_table(events, speed, room_of(console)))


def _broken(message: str, most: int) -> str:
    """Return a message whose words have at most a number of characters, cut after a slash."""
    words: list[str] = []
    for word in message.split():
        rest = word
        while len(rest) > most:
            end = rest.rfind("/", 1, most) + 1 or most
            words.append(rest[:end])
            rest = rest[end:]
        words.append(rest)
    return " ".join(words)
