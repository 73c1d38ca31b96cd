"""Draws the replicas of scenarios on the twin and in a rehearsal, for the page about rehearsals.

.venv/bin/python -m tests.contract.infra.rehearsed_picture docs/images/rehearsal-on-twin.svg
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infra.plan import Plan
from infra.reading.load import STACKS
from scripts.rehearse.changes import with_changes
from simulator.rehearsal.description import Platform, Workload
from tests.contract.infra.rehearsed_scenario import (
    EVENTS,
    EVENTS_TRAFFIC,
    of_events,
    points_of,
    previewed,
    ready_at,
    rehearsed,
)
from twin.drawings.curves_svg import Curve, Panel, save

TIMELINES = Path(__file__).with_name("timelines")
EXAMPLES = STACKS.parent / "docs" / "examples"


def panels() -> Iterator[Panel]:
    """Yield a panel with both curves for each scenario and workload."""
    local = previewed(STACKS / "Pulumi.local.yaml")[1]
    for name in ("burst", "tpu-stockout"):
        yield from _panels(name, local, name, timeline_of(name))
    lost = previewed(EXAMPLES / "three-regions" / "Pulumi.three-regions.yaml")[1]
    yield from _panels("region-loss", lost, "region-loss", timeline_of("region-loss"))
    plan, platform = events_platform()
    changing = with_changes(platform, plan, EVENTS)
    yield from _panels("events", changing, str(EVENTS_TRAFFIC), timeline_of("events"))


def events_platform() -> tuple[Plan, Platform]:
    """Return the stack of the events."""
    example = EXAMPLES / "engines" / "Pulumi.engines.yaml"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, example.name)
        file.write_text(of_events(example.read_text()))
        return previewed(file)


def timeline_of(name: str) -> dict[str, Any]:
    """Return a recorded timeline."""
    return json.loads((TIMELINES / f"{name}.json").read_text())


def _panels(
    title: str, platform: Platform, scenario: str, timeline: dict[str, Any]
) -> Iterator[Panel]:
    for one in rehearsed(platform, scenario, timeline).workloads:
        points = points_of(timeline["ready"], one.workload)
        twin = tuple((each.seconds, float(ready_at(points, each))) for each in one.recorded)
        own = tuple((each.seconds, float(each.ready)) for each in one.recorded)
        if len({number for _, number in twin + own}) == 1:
            continue  # nothing happened to it
        curves = (Curve("twin", twin), Curve("rehearsal", own, dashed=True))
        yield Panel(f"{title}\n{_short(one.workload, platform)}", curves)


def _short(workload: Workload, platform: Platform) -> str:
    if len(platform.regions) > 1:
        return workload.region
    return workload.name if len(platform.models) > 1 else workload.name.rpartition("-")[2].upper()


def main() -> None:
    """Write the picture."""
    save(list(panels()), [], Path(sys.argv[1]), "", x_label="seconds on the twin")


if __name__ == "__main__":
    main()
