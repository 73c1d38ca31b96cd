"""Outcomes of requests."""

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """The outcome of a request for its client."""

    ANSWERED = "answered"
    """Complete: status 200, a finish reason and the end of the stream."""
    REFUSED = "refused"
    """An error that the client can read: a status of 400 or more, or an error in the stream."""
    LOST = "lost"
    """No answer and no error: connection refused or cut, stream without an end, timeout."""


@dataclass(frozen=True, slots=True)
class Record:
    """A request as its client saw it, with times in seconds after the start of the replay."""

    number: int
    """Its index in the trace."""
    outcome: Outcome
    due: float
    """Due time in the trace."""
    sent: float
    """Time when the client started to send it."""
    done: float
    """Time when the client knew the outcome."""
    first: float | None = None
    """Time of the first token."""
    last: float | None = None
    """Time of the last token."""
    tokens: int = 0
    """Tokens of the response, as counted by the engine (usage)."""
    prompt_tokens: int = 0
    status: int | None = None
    """HTTP status; None if there was none."""
    error: str = ""
    """Reason for a refusal or loss: `http-429`, `stream-error`, `connect`, `reset`, `truncated`,
    `unfinished`, `timeout` or `malformed`."""
    detail: str = ""
    """The error's first words."""
    replica: str = ""
    """Responding pod, from the header `x-gke-inference-pod`."""
    group: str = ""

    @property
    def ttft(self) -> float | None:
        """Seconds from its due time to its first token, including delays of the client."""
        return None if self.first is None else self.first - self.due

    @property
    def tpot(self) -> float | None:
        """Seconds per token after the first; None for responses of one token."""
        if self.first is None or self.last is None or self.tokens < 2:
            return None
        return (self.last - self.first) / (self.tokens - 1)

    @property
    def lag(self) -> float:
        """Delay of the client itself in seconds."""
        return self.sent - self.due
