"""What becomes of requests, replicas and dollars, in bounded memory."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

PERCENTILE = 0.95
_LOW, _RATIO, _BINS = 1e-3, 1.02, 1000
"""Histogram of seconds: bins from a millisecond, each 2 percent wider than the one before."""


@dataclass
class Histogram:
    """Durations in bins of 2 percent."""

    counts: Numbers = field(default_factory=lambda: np.zeros(_BINS, np.int64))

    def add(self, seconds: Floats) -> None:
        """Add durations."""
        if len(seconds):
            at = np.log(np.maximum(seconds, _LOW) / _LOW) / np.log(_RATIO)
            self.counts += np.bincount(np.minimum(at.astype(np.int64), _BINS - 1), minlength=_BINS)

    def quantile(self, share: float) -> float | None:
        """Return a quantile in seconds, to 2 percent; None without durations."""
        whole = int(self.counts.sum())
        if not whole:
            return None
        at = int(np.searchsorted(np.cumsum(self.counts), share * whole, side="left"))
        return float(_LOW * _RATIO ** (at + 0.5))


@dataclass
class Outcomes:
    """Requests of one model in one region, by outcome."""

    sent: int = 0
    answered: int = 0
    refused: int = 0
    """Refused at once: no replica, a limit, saturation, or more tokens than the context."""
    cut: int = 0
    """Cut off by the gateway's timeout."""
    lost: int = 0
    """Lost with their replica."""
    late_ttft: int = 0
    """Answered later than the objective for the first token."""
    late_tpot: int = 0
    """Answered slower than the objective for the tokens after it."""
    prompt_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    ttft: Histogram = field(default_factory=Histogram)
    tpot: Histogram = field(default_factory=Histogram)
    reasons: Counter[str] = field(default_factory=Counter[str])
    """Requests without a whole answer, by reason."""

    @property
    def failed(self) -> int:
        """Requests without a whole answer."""
        return self.refused + self.cut + self.lost

    def plus(self, other: "Outcomes") -> "Outcomes":
        """Return the sum of two."""
        made = Outcomes()
        for name in _COUNTS:
            setattr(made, name, getattr(self, name) + getattr(other, name))
        made.ttft.counts = self.ttft.counts + other.ttft.counts
        made.tpot.counts = self.tpot.counts + other.tpot.counts
        made.reasons = self.reasons + other.reasons
        return made


_COUNTS = (
    "sent", "answered", "refused", "cut", "lost", "late_ttft", "late_tpot", "prompt_tokens",
    "output_tokens", "cached_tokens",
)  # fmt: skip


class Open:
    """Requests that have not ended, by a number that is used again."""

    def __init__(self) -> None:
        self._size = 0
        self._free = np.zeros(0, np.int64)
        self._is_open = np.zeros(0, np.bool_)
        self.seconds = np.zeros(0)
        self.model = np.zeros(0, np.int64)
        self.region = np.zeros(0, np.int64)
        self.team = np.zeros(0, np.int64)
        self.prompt_tokens = np.zeros(0, np.int64)

    def take(self, count: int) -> Numbers:
        """Return numbers for new requests."""
        if count > len(self._free):
            more = max(count - len(self._free), self._size, 1024)
            self._free = np.concatenate((self._free, np.arange(self._size, self._size + more)))
            self._size += more
            for name in ("seconds", "model", "region", "team", "prompt_tokens", "_is_open"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate((old, np.zeros(more, old.dtype))))
        taken, self._free = self._free[:count], self._free[count:]
        self._is_open[taken] = True
        return taken

    def release(self, numbers: Numbers) -> None:
        """Make numbers available again."""
        self._is_open[numbers] = False
        self._free = np.concatenate((self._free, numbers))

    def numbers(self) -> Numbers:
        """Return the numbers of open requests."""
        return np.flatnonzero(self._is_open)

    @property
    def count(self) -> int:
        """Number of open requests."""
        return self._size - len(self._free)


@dataclass(frozen=True)
class Sample:
    """The state of a workload at one time."""

    seconds: float
    ready: int
    starting: int
    """Placed on a node, but not ready."""
    pending: int
    """Without a node."""
    wanted: int
    running: int
    """Requests in the batches of its replicas."""
    waiting: int
    """Requests in their queues."""
