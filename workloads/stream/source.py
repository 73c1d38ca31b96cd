"""The interface of a source of messages."""

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
        """Stop receiving; received messages can still be finished or returned."""
        ...

    async def close(self) -> None:
        """Flush, and close the source."""
        ...
