"""Draws the replicas of scenarios on the twin and in a rehearsal, for the page about rehearsals.

.venv/bin/python -m tests.contract.infra.rehearsed_picture docs/images/rehearsal-on-twin.svg
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from infra.plan import resolve
from infra.reading.load import read
from scripts.rehearse.describe import describe
from scripts.shared.engine import Engine
from scripts.shared.preview_states import manifests, preview_states
from tests.contract.infra.rehearsed_scenario import points_of, ready_at, rehearsed
from twin.drawings.curves_svg import Curve, Panel, save
from twin.host.paths import TwinPaths

TIMELINES = Path(__file__).with_name("timelines")


def panels() -> Iterator[Panel]:
    """Yield a panel with both curves for each scenario and workload."""
    states = preview_states(Engine(TwinPaths.default()), "local")
    platform = describe(resolve(read("local")), manifests(states), states).platform
    for name in ("burst", "tpu-stockout"):
        timeline = json.loads((TIMELINES / f"{name}.json").read_text())
        for one in rehearsed(platform, name, timeline).workloads:
            points = points_of(timeline["ready"], one.workload)
            twin = tuple((each.seconds, float(ready_at(points, each))) for each in one.recorded)
            own = tuple((each.seconds, float(each.ready)) for each in one.recorded)
            kind = one.workload.name.rpartition("-")[2].upper()
            curves = (Curve("twin", twin), Curve("rehearsal", own, dashed=True))
            yield Panel(f"{name}\n{kind} replicas", curves)


def main() -> None:
    """Write the picture."""
    save(list(panels()), [], Path(sys.argv[1]), "", x_label="seconds on the twin")


if __name__ == "__main__":
    main()
