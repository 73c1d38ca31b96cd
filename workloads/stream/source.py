"""What a worker needs of a source of messages, whichever it is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from .messages import Message


@dataclass(frozen=True)
class Delivery:
    """A message with what becomes of it: exactly one of the two is called."""

    message: Message
    done: Callable[[], None]
    """The message is answered, or is a dead letter."""
    give_back: Callable[[], None]
    """Another worker, or a later attempt, has to do it."""


class SourceError(Exception):
    """A source or topic fails for a reason that a restart, or time, may help."""


class TooLarge(SourceError):
    """A topic takes no message of this size, however often it is tried."""


class Source(Protocol):
    """Delivers messages until it is stopped."""

    def start(self, receive: Callable[[Delivery], None]) -> None:
        """Begin; `receive` may be called from any thread."""
        ...

    async def ended(self) -> None:
        """Wait until the source ends by itself.

        Raises:
            SourceError: Why.
        """
        ...

    async def stop(self) -> None:
        """Receive nothing more; what was received can still be done or given back."""
        ...

    async def close(self) -> None:
        """Send what is left to send, and let go."""
        ...
