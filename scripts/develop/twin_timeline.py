"""Records the replicas of the last scenario on the twin, to compare a rehearsal with.

    .venv/bin/gke-inference up --stack local --scenario burst
    .venv/bin/python -m scripts.develop.twin_timeline local burst FILE

Write the file before another scenario is played. It has the ready replicas of each workload over
time, the times that its processes took to start (which are real time, so they depend on the
machine), and the requests of the traffic.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

from twin.drawings.timeline import Event, ordered, workload_of
from twin.host.paths import REPOSITORY, TwinPaths
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
    ready: dict[str, str] = {}
    curves: dict[str, list[tuple[float, int]]] = {}
    starts: dict[str, list[float]] = {}
    started: dict[str, float] = {}
    for event in found:
        pod, at = str(event["subject"]), round(event["time"] - begun, 2)
        if event["kind"] == "engine.started":
            started[pod] = at
        elif event["kind"] == "pod.ready" and pod in started:
            name = workload_of(pod).removeprefix("pods of ")
            starts.setdefault(name, []).append(at - started[pod])
            ready[pod] = name
            _change(curves, name, at, 1)
        elif event["kind"] == "engine.stopped" and pod in ready:
            _change(curves, ready.pop(pod), at, -1)
    return {
        "scenario": scenario,
        "speed": speed,
        "ready": {name: [(max(0.0, at), n) for at, n in points] for name, points in curves.items()},
        "start_seconds": {name: round(median(each), 2) for name, each in starts.items()},
    }


def _after(scenario: str) -> float:
    return scenarios.load(scenarios.find(scenario)).steps[0].after or 0.0


def _change(curves: dict[str, list[tuple[float, int]]], name: str, at: float, by: int) -> None:
    points = curves.setdefault(name, [])
    before = points[-1][1] if points else 0
    points.append((at, before + by))


def main() -> None:
    """Write the file."""
    stack, scenario, target = sys.argv[1:4]
    paths = TwinPaths.default()
    found = record(Events(paths.events_file).read(), scenario, Rules.of(paths).speed)
    folder = REPOSITORY / "build" / stack
    if scenarios.load(scenarios.find(scenario)).traffic is None:
        found["gap_seconds"] = json.loads((folder / "client.json").read_text())["gap_seconds"]
    else:
        summary = json.loads((folder / "traffic.json").read_text())
        found["requests"] = {key: summary[key] for key in ("sent", "answered", "refused", "lost")}
    Path(target).write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
