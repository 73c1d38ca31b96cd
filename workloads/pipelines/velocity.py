"""State of each key: its events in the order of their times, and what happened before each."""

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.coders import PickleCoder, VarIntCoder
from apache_beam.metrics import Metrics
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    ReadModifyWriteStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from .events import Event
from .history import Seen, before, still_needed
from .settings import Settings

LETTERS = "dead_letters"
"""Tag of the output of events that are too late."""


class Velocity(beam.DoFn):
    """Gives each event once, with number and sum of the events of its key in the window before it.

    An event waits until the watermark reaches its time, so that earlier events are counted
    whatever the order of arrival. A late event is counted in later features, and its own are
    exact; features that were given before are not changed. An event that is more than
    `lateness_seconds` older than what was already given of its key is `too-late`.

    State is removed once the watermark is beyond window and lateness of the key's last event.
    """

    WAITING = BagStateSpec("waiting", PickleCoder())
    HISTORY = BagStateSpec("history", PickleCoder())
    REACHED = ReadModifyWriteStateSpec("reached", VarIntCoder())
    NEXT = ReadModifyWriteStateSpec("next", VarIntCoder())
    DUE = TimerSpec("due", TimeDomain.WATERMARK)
    EXPIRY = TimerSpec("expiry", TimeDomain.WATERMARK)

    def __init__(self, settings: Settings) -> None:
        self._window = settings.window_seconds * 10**6
        self._lateness = settings.lateness_seconds * 10**6
        self._duplicates = Metrics.counter("Velocity", "duplicates")

    def process(
        self,
        element: tuple[str, Event],
        waiting: Any = beam.DoFn.StateParam(WAITING),
        history: Any = beam.DoFn.StateParam(HISTORY),
        reached: Any = beam.DoFn.StateParam(REACHED),
        coming: Any = beam.DoFn.StateParam(NEXT),
        due: Any = beam.DoFn.TimerParam(DUE),
    ) -> Iterable[Any]:
        """Let an event wait for its time."""
        _, event = element
        done = reached.read()
        if done is not None and event.micros < done - self._lateness:
            late = f"{(done - event.micros) // 10**6} s behind its key"
            yield beam.pvalue.TaggedOutput(LETTERS, (event, "too-late", late))
            return
        known = {each.id for each in waiting.read()} | {each.id for each in history.read()}
        if event.id in known:
            self._duplicates.inc()
            return
        waiting.add(event)
        first = coming.read()
        if first is None or event.micros < first:
            coming.write(event.micros)
            due.set(Timestamp(micros=event.micros))

    @on_timer(DUE)
    def give(
        self,
        now: Any = beam.DoFn.TimestampParam,
        waiting: Any = beam.DoFn.StateParam(WAITING),
        history: Any = beam.DoFn.StateParam(HISTORY),
        reached: Any = beam.DoFn.StateParam(REACHED),
        coming: Any = beam.DoFn.StateParam(NEXT),
        due: Any = beam.DoFn.TimerParam(DUE),
        expiry: Any = beam.DoFn.TimerParam(EXPIRY),
    ) -> Iterator[Any]:
        """Give the events whose time has come."""
        in_order = sorted(waiting.read(), key=lambda event: (event.micros, event.id))
        ready = [event for event in in_order if event.micros <= now.micros]
        rest = in_order[len(ready) :]
        past: list[Seen] = list(history.read())
        for event in ready:
            count, total = before(past, event, self._window)
            past.append(Seen(event.micros, event.id, event.value))
            yield TimestampedValue((event, count, total), Timestamp(micros=event.micros))
        done = max((reached.read() or 0, *(event.micros for event in ready)))
        reached.write(done)
        _replace(history, still_needed(past, done, self._window + self._lateness))
        _replace(waiting, rest)
        coming.clear()
        if rest:
            coming.write(rest[0].micros)
            due.set(Timestamp(micros=rest[0].micros))
        expiry.set(Timestamp(micros=done + self._window + self._lateness + 1))

    @on_timer(EXPIRY)
    def forget(
        self,
        waiting: Any = beam.DoFn.StateParam(WAITING),
        history: Any = beam.DoFn.StateParam(HISTORY),
        reached: Any = beam.DoFn.StateParam(REACHED),
    ) -> None:
        """Remove the state of a key without recent events."""
        if not any(True for _ in waiting.read()):
            history.clear()
            reached.clear()


def _replace(state: Any, items: Iterable[Any]) -> None:
    state.clear()
    for item in items:
        state.add(item)
