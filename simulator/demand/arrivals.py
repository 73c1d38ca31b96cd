"""Requests of a platform in the order of arrival, as arrays.

    for arrivals in traffic.chunks():
        rates = np.bincount(arrivals.model, minlength=len(traffic.models))

A day of a platform has tens of millions of requests: traffic yields them in chunks of bounded size
and can be read as often as needed, always with the same requests.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

MOST = 1_000_000
"""Requests of the largest chunk."""
GROWING = 1 << 62
"""Least number of a prefix group that is a session: each prompt starts with the prompt and the
answer before it, so that both can be found again. In other groups, only `prefix_tokens` can."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Requests in the order of arrival: arrays of one length, at most `MOST`."""

    seconds: NDArray[np.float64]
    """Time since the start of the traffic."""
    model: NDArray[np.int16]
    """Index into `Traffic.models`."""
    team: NDArray[np.int16]
    """Index into `Traffic.teams`; -1: none."""
    region: NDArray[np.int16]
    """Region of the client, as index into `Traffic.regions`; -1: unknown."""
    prompt_tokens: NDArray[np.int32]
    output_tokens: NDArray[np.int32]
    prefix: NDArray[np.int64]
    """Number of the prefix group, whose requests start with the same tokens; -1: none. Sessions
    have numbers from `GROWING` on."""
    prefix_tokens: NDArray[np.int32]
    """Tokens shared with other requests of the group; with earlier ones, in a session."""

    def __len__(self) -> int:
        """Return the number of requests."""
        return len(self.seconds)

    def __getitem__(self, part: Any) -> "Arrivals":
        """Return the requests of a slice, a mask or an array of indices."""
        return Arrivals(*(getattr(self, name)[part] for name in COLUMNS))

    @classmethod
    def joined(cls, parts: "list[Arrivals]") -> "Arrivals":
        """Return requests of several chunks, in the order of the chunks."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS))


COLUMNS = tuple(field.name for field in fields(Arrivals))
"""Names of the arrays."""
DTYPES = (
    np.float64, np.int16, np.int16, np.int16, np.int32, np.int32, np.int64, np.int32,
)  # fmt: skip
"""Types of the arrays, in the order of `COLUMNS`."""


def arrivals_of(*columns: Any) -> Arrivals:
    """Return arrivals with the types of `DTYPES`, from columns in the order of `COLUMNS`."""
    typed: list[Any] = [np.asarray(v, kind) for v, kind in zip(columns, DTYPES, strict=True)]
    return Arrivals(*typed)


class Traffic(Protocol):
    """Requests of a period."""

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models."""
        ...

    @property
    def teams(self) -> tuple[str, ...]:
        """Names of the teams; empty where requests have none."""
        ...

    @property
    def regions(self) -> tuple[str, ...]:
        """Names of the clients' regions; empty where they are unknown."""
        ...

    @property
    def seconds(self) -> float:
        """Length of the period."""
        ...

    def chunks(self, most: int = MOST) -> Iterator[Arrivals]:
        """Yield all requests in the order of arrival, in chunks of at most `most`.

        Each call yields the same requests from the start; the size of chunks does not change them.
        """
        ...
