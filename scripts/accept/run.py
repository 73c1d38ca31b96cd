"""Runs every check of an acceptance, group by group."""

import time
from collections.abc import Iterator
from typing import Final

from scripts.accept.alerts import alerts
from scripts.accept.answers import answers, streams
from scripts.accept.buffers import buffers
from scripts.accept.deployed import Check, Deployed
from scripts.accept.endpoint import certificates, gateways, listings
from scripts.accept.front import front_answers, front_certificates, front_listings
from scripts.accept.labels import labels
from scripts.accept.metrics import autoscalers, targets
from scripts.accept.placement import cold_starts, placements
from scripts.accept.row import Row
from scripts.accept.speeds import speeds

GROUPS: Final[dict[str, tuple[Check, ...]]] = {
    "Endpoint": (gateways, certificates, listings, front_certificates, front_listings),
    "Models": (answers, streams, front_answers),
    "Placement": (placements, buffers, cold_starts),
    "Metrics": (targets, autoscalers),
    "Speed": (speeds,),
    "Alerts": (alerts,),
    "Cost labels": (labels,),
}
"""Checks by subject, in the order of the report; all are read-only."""

_LOOK_SECONDS: Final = 2.0


def run(deployed: Deployed, checks: tuple[Check, ...], until: float) -> Iterator[Row]:
    """Yield the rows of checks; repeat a check that is not met until the deadline.

    A load balancer can take minutes to use a new replica, and metrics can take minutes to arrive.

    Args:
        deployed: The platform.
        checks: Checks to run.
        until: Deadline for repetitions, on the clock of `time.monotonic`.
    """
    for check in checks:
        rows = list(check(deployed))
        while any(row.is_failure for row in rows) and time.monotonic() < until:
            deployed.sleep(_LOOK_SECONDS)
            rows = list(check(deployed))
        yield from rows
