"""A scenario of the twin as a rehearsal: the twin's clock, its traffic, and its start times."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from scripts.operate.load import trace_of
from simulator.demand.arrivals import MOST, Arrivals
from simulator.rehearsal.accounts import Sample
from simulator.rehearsal.description import Hardware, Platform, Times
from simulator.rehearsal.run import Rehearsal
from twin.world.rules import Rules
from twin.world.scenario import Scenario

_CHARACTERS_PER_TOKEN = 4
_LEAST_SECONDS = 1.0
"""Shortest interval of scrapes (rule monitoring.interval.shortest) and of the autoscaler on the
twin."""
_STEP = 0.25
_CLIENT_SECONDS = 0.25
"""Interval of the client that asks during a scenario without traffic."""


@dataclass(frozen=True)
class Recorded:
    """The requests of a scenario, in real time."""

    arrivals: Arrivals
    models: tuple[str, ...]
    seconds: float
    teams: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()

    def chunks(self, most: int = MOST) -> Iterator[Arrivals]:
        """Yield the requests, at most a number at once."""
        for first in range(0, len(self.arrivals), most):
            yield self.arrivals[first : first + most]


def as_on_twin(
    platform: Platform, scenario: Scenario, start_seconds: Mapping[str, float], speed: float
) -> Platform:
    """Return a platform whose rules run as fast as on the twin, and to which a scenario happens.

    Args:
        platform: The platform.
        scenario: The scenario.
        start_seconds: Real time that a process of a workload took to start, which does not depend
            on the twin's speed.
        speed: Speed of the twin's clock.
    """
    rules = Rules(speed)
    scrape = max(_LEAST_SECONDS, platform.times.scrape / speed)
    sync = max(_LEAST_SECONDS, rules.scaled("hpa.sync"))
    created = rules.seconds("agent.image.streamed")
    workloads = tuple(
        replace(
            each,
            hardware={
                machine: Hardware(one.engine, created, start_seconds[each.name] * speed)
                for machine, one in each.hardware.items()
            },
        )
        for each in platform.workloads
    )
    return replace(
        platform,
        times=Times(rules, scrape, sync, _STEP),
        workloads=workloads,
        world=scenario.start,
        steps=scenario.steps,
    )


def traffic_of(scenario: Scenario, model: str) -> Recorded:
    """Return the requests of a scenario that has traffic."""
    if scenario.traffic is None:
        raise ValueError(f"traffic: must be in the scenario {scenario.name}, got none")
    asks = trace_of(scenario.traffic, model).asks
    prompts = [
        max(1, len(ask.prompt.prefix + ask.prompt.tail) // _CHARACTERS_PER_TOKEN) for ask in asks
    ]
    outputs = [ask.output_tokens for ask in asks]
    seconds = sum(stage.seconds for stage in scenario.traffic.stages)
    return Recorded(_arrivals([ask.at for ask in asks], prompts, outputs), (model,), seconds)


def client_of(scenario: Scenario, model: str, speed: float) -> Recorded:
    """Return the requests of the client that asks during a scenario without traffic."""
    seconds = sum(step.after or 0.0 for step in scenario.steps) / speed
    at = np.arange(_CLIENT_SECONDS, seconds, _CLIENT_SECONDS).tolist()
    return Recorded(_arrivals(at, [16] * len(at), [4] * len(at)), (model,), seconds)


def _arrivals(seconds: Sequence[float], prompts: Sequence[int], outputs: Sequence[int]) -> Arrivals:
    count = len(seconds)
    return Arrivals(
        np.array(seconds), np.zeros(count, np.int16), np.full(count, -1, np.int16),
        np.full(count, -1, np.int16), np.array(prompts, np.int32), np.array(outputs, np.int32),
        np.full(count, -1, np.int64), np.zeros(count, np.int32),
    )  # fmt: skip


def share_within(
    rehearsal: Rehearsal, ready: Mapping[str, Sequence[tuple[float, int]]], most: int = 1
) -> dict[str, float]:
    """Return the share of the time in which replicas differ by at most a number, by workload.

    Args:
        rehearsal: A rehearsal that has ended.
        ready: Ready replicas on the twin: (seconds, number), each until the next.
        most: Largest difference.
    """
    found: dict[str, float] = {}
    for one in rehearsal.workloads:
        points = ready.get(one.workload.name, ())
        near = [abs(sample.ready - _at(points, sample)) <= most for sample in one.recorded]
        found[one.workload.name] = sum(near) / len(near)
    return found


def gap_seconds(rehearsal: Rehearsal) -> float:
    """Return the longest time in which no request of a rehearsal was answered."""
    longest = current = 0
    for series in rehearsal.tally.series.values():
        for sent, failed in zip(series.sent.tolist(), series.failed.tolist(), strict=True):
            current = current + 1 if sent and failed == sent else 0
            longest = max(longest, current)
    return longest * rehearsal.tally.interval


def _at(points: Sequence[tuple[float, int]], sample: Sample) -> int:
    number = 0
    for at, then in points:
        if at <= sample.seconds:
            number = then
    return number
