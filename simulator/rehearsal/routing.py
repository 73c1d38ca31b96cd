"""What keeps requests from a replica: saturation, ejected regions, limits of teams."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simulator.rehearsal.description import Front, Limit

Mask = NDArray[np.bool_]

QUEUE_DEPTH = 5.0
KV_USAGE = 0.8
"""Load of a replica that the endpoint picker counts as saturated: waiting requests and share of the
KV cache (gateway-api-inference-extension v1.5.0, the defaults of its utilization detector)."""
_MINUTE = 60.0
_LOOK_SECONDS, _LONGEST_SECONDS = 10.0, 300.0
"""Interval of outlier detection, and the longest ejection: Envoy's defaults
(config.cluster.v3.OutlierDetection, interval and max_ejection_time)."""


def saturation(waiting: NDArray[np.int64], kv_usage: NDArray[np.float64]) -> float:
    """Return the mean load of a pool's replicas, 1 where the picker sheds requests."""
    if not len(waiting):
        return 0.0
    return float(np.mean(np.maximum(waiting / QUEUE_DEPTH, kv_usage / KV_USAGE)))


@dataclass
class Ejections:
    """Regions that the front leaves out, by outlier detection (rule front.failover)."""

    front: Front
    regions: int
    _failures: dict[str, int] = field(default_factory=dict[str, int])
    _until: dict[str, float] = field(default_factory=dict[str, float])
    _times: dict[str, int] = field(default_factory=dict[str, int])
    """Ejections of each region, less one for each interval since the last one ended."""

    def is_out(self, region: str, now: float) -> bool:
        """Return whether a region is ejected."""
        return now < self._until.get(region, 0.0)

    def room(self, region: str) -> int:
        """Return how many failures a region may have until it is ejected."""
        return max(0, self.front.failures - self._failures.get(region, 0))

    def answered(self, region: str) -> None:
        """Record an answer, which starts the count again."""
        self._failures[region] = 0

    def failed(self, region: str, count: int, now: float) -> bool:
        """Record consecutive failures; return whether the region is ejected now.

        An ejection takes as many times the base time as the region was ejected lately. At most half
        of the regions are ejected, but always one may be. The count starts again where one more may
        not be, as in Envoy (outlier_detection_impl.cc, onConsecutiveErrorWorker).
        """
        if not self.front.is_global or not count:
            return False
        found = self._failures.get(region, 0) + count
        self._failures[region] = found
        if found < self.front.failures:
            return False
        self._failures[region] = 0
        out = sum(now < until for until in self._until.values())
        if out + 1 > max(1, self.regions // 2):
            return False
        calm = int((now - self._until.get(region, now)) // _LOOK_SECONDS)
        self._times[region] = max(0, self._times.get(region, 0) - calm) + 1
        base = self.front.ejection_seconds
        self._until[region] = now + min(base * self._times[region], max(base, _LONGEST_SECONDS))
        return True


@dataclass
class TeamMeter:
    """The requests and tokens of one team in the present minute, and its tokens in the month."""

    limit: Limit
    _minute: int = -1
    _requests: int = 0
    _tokens: float = 0.0
    _month: float = 0.0
    _usd: float = 0.0

    def admit(
        self, seconds: NDArray[np.float64], tokens: NDArray[np.int64], usd: NDArray[np.float64]
    ) -> tuple[Mask, Mask]:
        """Return which requests are within all limits, and which are within those of the month.

        Args:
            seconds: Times of arrival, which ascend.
            tokens: Tokens of prompt and answer.
            usd: Price of these tokens, in US dollars.
        """
        admitted = np.ones(len(seconds), np.bool_)
        in_month = np.ones(len(seconds), np.bool_)
        if self.limit.tokens_per_month is not None:
            in_month &= self._month + np.cumsum(tokens) <= self.limit.tokens_per_month
        if self.limit.usd_per_month is not None:
            in_month &= self._usd + np.cumsum(usd) <= self.limit.usd_per_month
        minutes = (seconds / _MINUTE).astype(np.int64)
        for minute in np.unique(minutes):
            if minute != self._minute:
                self._minute, self._requests, self._tokens = int(minute), 0, 0.0
            at = np.flatnonzero(minutes == minute)
            within = in_month[at].copy()
            if self.limit.requests_per_minute is not None:
                left = self.limit.requests_per_minute - self._requests
                within &= np.arange(1, len(at) + 1) <= left
            if self.limit.tokens_per_minute is not None:
                sums = np.cumsum(tokens[at])
                within &= sums <= self.limit.tokens_per_minute - self._tokens
            self._requests += int(within.sum())
            self._tokens += float(tokens[at][within].sum())
            self._month += float(tokens[at][within].sum())
            self._usd += float(usd[at][within].sum())
            admitted[at] = within
        return admitted, in_month
