"""What became of each request."""

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """What a client can say of its request."""

    ANSWERED = "answered"
    """Complete: status 200, a finish reason and the end of the stream."""
    REFUSED = "refused"
    """An error that the client can read: a status of 400 or more, or an error in the stream."""
    LOST = "lost"
    """No answer and no error: connection refused or cut, stream without an end, time-out."""


@dataclass(frozen=True, slots=True)
class Record:
    """One request as its client saw it; times in seconds after the start of the replay."""

    number: int
    """Its place in the trace."""
    outcome: Outcome
    due: float
    """When the trace wanted it sent."""
    sent: float
    """When the client began to send it."""
    done: float
    """When the client knew the outcome."""
    first: float | None = None
    """When the first token came."""
    last: float | None = None
    """When the last token came."""
    tokens: int = 0
    """Tokens of the answer, as the engine counts them (usage)."""
    prompt_tokens: int = 0
    status: int | None = None
    """HTTP status, None where none came."""
    error: str = ""
    """Why it was refused or lost: `http-429`, `stream-error`, `connect`, `reset`, `truncated`,
    `unfinished`, `timeout` or `malformed`."""
    detail: str = ""
    """The error's first words."""
    replica: str = ""
    """Pod that answered, from the header `x-gke-inference-pod`."""
    group: str = ""

    @property
    def ttft(self) -> float | None:
        """Seconds from when it was due to its first token: a late client does not flatter."""
        return None if self.first is None else self.first - self.due

    @property
    def tpot(self) -> float | None:
        """Seconds for each token after the first; None for answers of one token."""
        if self.first is None or self.last is None or self.tokens < 2:
            return None
        return (self.last - self.first) / (self.tokens - 1)

    @property
    def lag(self) -> float:
        """Seconds by which the client itself was late."""
        return self.sent - self.due
