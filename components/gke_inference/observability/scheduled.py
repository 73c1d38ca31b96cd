"""The minimum of replicas of a schedule as an expression of the clock.

PromQL knows no time zones (prometheus.io/docs/prometheus/latest/querying/functions: its functions
of times are in UTC). The expression has a term for each offset of the zone, and the times at which
the offset changes, of the years that `offsets` knows.
"""

from itertools import pairwise
from typing import Final

from gke_inference.catalogue.time_zones import offsets
from gke_inference.intent.schedule import MINUTES_OF_WEEK, ReplicaSchedule

_EPOCH_MINUTE: Final = 3 * 24 * 60
"""Minute of the week at which Unix time begins: Thursday 00:00 UTC."""


def scheduled_replicas(schedule: ReplicaSchedule) -> str:
    """Return the expression for the minimum of a schedule, 0 outside of all windows."""
    known = offsets(schedule.time_zone)
    terms: list[str] = []
    for offset in dict.fromkeys(minutes for _, minutes in known):
        week = _week(schedule, offset)
        holds = _holds(known, offset)
        terms.append(week if holds is None else f"({holds}) * ({week})")
    return f"vector({' + '.join(terms)})"


def _week(schedule: ReplicaSchedule, offset: int) -> str:
    """Return the minimum by the minute of the week, on a clock with an offset in minutes."""
    minute = f"(time() / 60 + {_EPOCH_MINUTE + offset}) % {MINUTES_OF_WEEK}"
    return " + ".join(
        f"{one.least} * ({minute} >= bool {one.start}) * ({minute} < bool {one.end})"
        for one in schedule.intervals
    )


def _holds(known: tuple[tuple[int, int], ...], offset: int) -> str | None:
    """Return the expression that is 1 while an offset holds and else 0; None if it always does."""
    if len(known) == 1:
        return None
    text = "1" if known[0][1] == offset else "0"
    for (_, before), (at, after) in pairwise(known):
        if offset in (before, after):
            text += f" {'+' if after == offset else '-'} (time() >= bool {at})"
    return text
