"""Speed of the engines, beside what the engine model has: as `gke-inference calibrate` compares."""

import time
from collections.abc import Iterator
from typing import Final

from scripts.accept.deployed import Deployed, seen
from scripts.accept.row import Row, Subject
from scripts.calibrate.comparing import Comparison
from scripts.calibrate.stack import Site, Window, compare_stack

_MINUTES: Final = 10.0
_LOOKS: Final = 3
MOST: Final = 2.0
"""Measured time between tokens over the modeled one, at most. Of published measurements, nine in
ten are within 42 % of the engine model (docs/reference/engine-model.md), which is a quotient of
1.7; an engine that takes twice as long has another reason, such as a wrong machine or flag."""


def speeds(deployed: Deployed) -> Iterator[Row]:
    """Yield whether the engines of each model and rung that answered are about as fast as modeled.

    The last ten minutes are compared, which have the requests of this run. A few requests tell a
    broken engine from a good one, and no more: `calibrate` needs traffic for minutes.
    """
    for region, cluster in deployed.clusters.items():
        site = Site(cluster.plan, cluster.api, cluster.history)
        found: list[Comparison] = []

        def look(site: Site = site, found: list[Comparison] = found, where: str = region) -> Row:
            found += _compared(deployed, site)
            return Subject("speed", where, "no promise").skipped("no model has answered")

        nothing = seen(Subject("speed", region, f"at most {MOST:g} times the model's time"), look)
        # an engine whose node is gone is not part of the platform that is accepted
        rows = [_judged(each, region) for each in found if each.deployment and each.found.replicas]
        yield from rows or [nothing]


def _compared(deployed: Deployed, site: Site) -> list[Comparison]:
    """Return the comparisons, after the scrape that has the requests of this run."""
    found: list[Comparison] = []
    for number in range(_LOOKS):
        if number:
            deployed.sleep(deployed.plan.platform.monitoring.scrape_seconds / deployed.speed)
        found = compare_stack([site], Window(_MINUTES, time.time()), least_periods=1)
        if not any(each.has_too_little for each in found):
            break
    return found


def _judged(row: Comparison, region: str) -> Row:
    name, result = f"{row.model} on {row.rung} in {region}", row.result
    if result is None:
        return Subject("speed", name, "no promise").skipped(row.why)
    predicted = (
        f"{1e3 * result.model_seconds:.1f} ms between tokens at {result.batch:.1f} sequences; at"
        f" most {MOST:g} times as long"
    )
    says = f"{1e3 * result.tpot_seconds:.1f} ms, {result.factor:.2f} times as long"
    return Subject("speed", name, predicted).judged(says, is_met=result.low <= MOST)
