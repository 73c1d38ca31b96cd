"""Records the replicas of the last scenario on the twin, to compare a rehearsal with.

    .venv/bin/gke-inference up --stack local --scenario burst
    .venv/bin/python -m scripts.develop.twin_timeline local burst FILE

Write the file before another scenario is played. It has the ready replicas of each workload over
time, with its region before the name where there are several, the times that its processes took to
start (which are real time, so they depend on the machine), and the requests of the traffic or the
client.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from twin.drawings.timeline import Event, ordered, workload_of
from twin.host.paths import TwinPaths
from twin.world import scenario as scenarios
from twin.world.events import Events
from twin.world.rules import Rules

_LOAD = "load"


def record(events: Iterable[Event], scenario: str, speed: float) -> dict[str, Any]:
    """Return the replicas of a scenario's last run over time, in seconds of real time.

    Args:
        events: All events of the twin.
        scenario: Name of the scenario.
        speed: Speed of the twin's clock.
    """
    found = ordered(events)
    subjects = {scenario, _LOAD}
    steps = [e for e in found if e["kind"] == "scenario.step" and e["subject"] in subjects]
    first = steps[0]
    begun = first["time"]
    if first["subject"] != _LOAD:
        begun -= _after(scenario) / speed
    ready: dict[str, tuple[str, str]] = {}
    curves: dict[tuple[str, str], list[tuple[float, int]]] = {}
    regions: dict[str, str] = {}
    starts: dict[str, list[tuple[float, float]]] = {}
    nodes: dict[str, float] = {}
    started: dict[str, float] = {}
    for event in found:
        pod, at = str(event["subject"]), round(event["time"] - begun, 2)
        if event["kind"] == "node.ready":
            nodes[pod] = at
            regions[pod] = str(event["zone"]).rpartition("-")[0]
        elif event["kind"] == "engine.started":
            started[pod] = at
        elif event["kind"] == "pod.ready" and pod in started:
            name = workload_of(pod).removeprefix("pods of ")
            # a node's first process waits for nothing but the machine that the twin runs on
            begun_at = nodes.pop(str(event["message"]).rpartition(" on ")[2], started[pod])
            starts.setdefault(name, []).append((at, at - begun_at))
            ready[pod] = regions.get(str(event["node"]), ""), name
            _change(curves, ready[pod], at, 1)
        elif event["kind"] == "engine.stopped" and pod in ready:
            _change(curves, ready.pop(pod), at, -1)
    return {
        "scenario": scenario,
        "speed": speed,
        "ready": {
            name if len({region for region, _ in curves}) == 1 else f"{region}/{name}": [
                (max(0.0, at), n) for at, n in points
            ]
            for (region, name), points in curves.items()
        },
        "start_seconds": {name: _usual(each) for name, each in starts.items()},
    }


def _usual(starts: Sequence[tuple[float, float]]) -> float:
    """Return the median of the starts during the scenario, or before it if there is none."""
    during = [seconds for at, seconds in starts if at > 0]
    return round(median(during or [seconds for _, seconds in starts]), 2)


def _after(scenario: str) -> float:
    return scenarios.load(scenarios.find(scenario)).steps[0].after or 0.0


def _change(
    curves: dict[tuple[str, str], list[tuple[float, int]]], of: tuple[str, str], at: float, by: int
) -> None:
    points = curves.setdefault(of, [])
    before = points[-1][1] if points else 0
    points.append((at, before + by))


def recorded(paths: TwinPaths, stack: str, scenario: str) -> dict[str, Any]:
    """Return what happened on a twin in the last scenario of a stack."""
    found = record(Events(paths.events_file).read(), scenario, Rules.of(paths).speed)
    folder = paths.root.parent / stack
    if scenarios.load(scenarios.find(scenario)).traffic is None:
        found["client"] = json.loads((folder / "client.json").read_text())
    else:
        summary = json.loads((folder / "traffic.json").read_text())
        found["requests"] = {key: summary[key] for key in ("sent", "answered", "refused", "lost")}
    return found


def main() -> None:
    """Write the file."""
    stack, scenario, target = sys.argv[1:4]
    Path(target).write_text(json.dumps(recorded(TwinPaths.default(), stack, scenario)) + "\n")


if __name__ == "__main__":
    main()
