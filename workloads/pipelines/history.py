"""What is remembered of the events of one key, and the features of the next one."""

from collections.abc import Iterable
from dataclasses import dataclass

from .events import Event


@dataclass(frozen=True, order=True)
class Seen:
    """An event that has been scored."""

    micros: int
    id: str
    value: float


def before(history: Iterable[Seen], event: Event, window_micros: int) -> tuple[int, float]:
    """Return number and sum of the events in the window that ends with an event, without it.

    The window is open at its start: an event that is exactly the window older is outside. Of
    events at the same time, those with a smaller ID come first, so that the result does not depend
    on the order of arrival.
    """
    values = [
        seen.value
        for seen in history
        if event.micros - window_micros < seen.micros
        and (seen.micros, seen.id) < (event.micros, event.id)
    ]
    return len(values), sum(values)


def still_needed(history: Iterable[Seen], reached: int, kept_micros: int) -> list[Seen]:
    """Return the events that a later event may still count.

    Args:
        history: Events of the key.
        reached: Time up to which the key's events are scored.
        kept_micros: Window and lateness together.
    """
    return [seen for seen in history if seen.micros > reached - kept_micros]
