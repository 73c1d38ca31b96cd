"""What happened during a rehearsal, by time."""

from dataclasses import dataclass, field

_MOST = 20_000


@dataclass(frozen=True)
class Event:
    """Something that happened."""

    seconds: float
    kind: str
    """As in the twin's timeline: `rung.stockout`, `node.notice`, `scenario.step`."""
    region: str
    message: str


@dataclass
class Log:
    """Events in the order of time; the first ones are kept."""

    events: list[Event] = field(default_factory=list[Event])
    dropped: int = 0
    zero: float = 0.0
    """Time from which the events count."""

    def add(self, now: float, kind: str, region: str, message: str) -> None:
        """Add an event."""
        if len(self.events) < _MOST:
            self.events.append(Event(now - self.zero, kind, region, message))
        else:
            self.dropped += 1
