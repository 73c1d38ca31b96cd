"""Traffic whose requests are in memory."""

from collections.abc import Iterator
from dataclasses import dataclass

from simulator.demand.arrivals import MOST, Arrivals


@dataclass(frozen=True)
class Listed:
    """Requests in the order of arrival."""

    models: tuple[str, ...]
    arrivals: Arrivals
    teams: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Time of the last request."""
        return float(self.arrivals.seconds[-1])

    def chunks(self, most: int = MOST) -> Iterator[Arrivals]:
        """Yield all requests in chunks of at most `most`."""
        for start in range(0, len(self.arrivals), most):
            yield self.arrivals[start : start + most]
