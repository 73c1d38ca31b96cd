"""A scenario of the twin as a rehearsal: the twin's clock, its traffic, and its start times."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from infra.plan import Plan, resolve
from infra.reading.load import parse, platform_of
from scripts.operate.load import trace_of
from scripts.operate.scenario import ASK_SECONDS
from scripts.rehearse.describe import describe
from scripts.shared.engine import Engine
from scripts.shared.preview_states import manifests, preview_states
from simulator.demand.arrivals import MOST, Arrivals
from simulator.rehearsal.accounts import Sample
from simulator.rehearsal.description import Hardware, Platform, Times, Workload
from simulator.rehearsal.engines import engines_of
from simulator.rehearsal.run import Rehearsal
from twin.host.paths import TwinPaths
from twin.world import scenario as scenarios
from twin.world.rules import Rules
from twin.world.scenario import Scenario

_CHARACTERS_PER_TOKEN = 4
_LEAST_SECONDS = 1.0
"""Shortest interval of scrapes (rule monitoring.interval.shortest) and of the autoscaler on the
twin."""
_STEP = 0.25
_TRIES = 10
Run = Callable[["Recorded"], Rehearsal]
Watch = Callable[[Rehearsal], None]


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
        times=Times(rules, scrape, sync, step=_STEP),
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
    clients = scenario.traffic.clients
    arrivals = _arrivals([ask.at for ask in asks], prompts, outputs)
    if clients:
        arrivals.region[:] = [clients.index(ask.group) for ask in asks]
    return Recorded(arrivals, (model,), seconds, regions=clients)


def client_of(
    scenario: Scenario, model: str, speed: float, client: Mapping[str, float], rehearse: Run
) -> tuple[Recorded, Rehearsal]:
    """Return the requests of the client that asks during a scenario without traffic.

    It asks again some time after each answer or refusal, so when it asks depends on what it gets.
    The requests are those of a rehearsal in which it gets the same answers, found by trying.

    Args:
        scenario: The scenario.
        model: Model that it asks.
        speed: Speed of the twin's clock.
        client: Its real times to an answer and to a refusal, as recorded.
        rehearse: Runs a rehearsal of some requests.
    """
    waits = tuple(
        ASK_SECONDS + (client[name] or 0.0) for name in ("answer_seconds", "refusal_seconds")
    )
    # it asks until the platform is idle again, after the last step
    asked = (client["answered"] or 0) * waits[0] + (client["refused"] or 0) * waits[1]
    seconds = max(sum(step.after or 0.0 for step in scenario.steps) / speed, asked)
    refused: Callable[[float], bool] = lambda _: False  # noqa: E731
    tries = 0
    while True:
        tries += 1
        at: list[float] = [ASK_SECONDS]
        while (following := at[-1] + waits[refused(at[-1])]) < seconds:
            at.append(following)
        traffic = Recorded(_arrivals(at, [16] * len(at), [4] * len(at)), (model,), seconds)
        found = rehearse(traffic)
        before, refused = refused, _refused(found)
        if tries == _TRIES or all(before(each) == refused(each) for each in at):
            return traffic, found


def _refused(rehearsal: Rehearsal) -> Callable[[float], bool]:
    """Return whether a request at a time is refused, from the intervals of a rehearsal."""
    (series,) = rehearsal.tally.series.values()
    asked = np.flatnonzero(series.sent)
    outcomes = series.failed[asked] > 0
    times = asked * rehearsal.tally.interval

    def at(seconds: float) -> bool:
        return bool(outcomes[max(0, int(np.searchsorted(times, seconds, side="right")) - 1)])

    return at


def _arrivals(seconds: Sequence[float], prompts: Sequence[int], outputs: Sequence[int]) -> Arrivals:
    count = len(seconds)
    return Arrivals(
        np.array(seconds), np.zeros(count, np.int16), np.full(count, -1, np.int16),
        np.full(count, -1, np.int16), np.array(prompts, np.int32), np.array(outputs, np.int32),
        np.full(count, -1, np.int64), np.zeros(count, np.int32),
    )  # fmt: skip


def rehearsed(
    described: Platform, name: str, timeline: Mapping[str, Any], watch: Watch = lambda _: None
) -> Rehearsal:
    """Return the rehearsal of a scenario that a timeline was recorded of.

    Args:
        described: The platform of the stack.
        name: The scenario.
        timeline: What `scripts.develop.twin_timeline` recorded.
        watch: Called with each rehearsal before it runs.
    """
    scenario = scenarios.load(scenarios.find(name))
    speed = timeline["speed"]
    platform = as_on_twin(described, scenario, timeline["start_seconds"], speed)
    model = platform.models[0].name

    def run(traffic: Recorded) -> Rehearsal:
        found = Rehearsal(platform, traffic, engines_of(platform))
        watch(found)
        found.run()
        return found

    if scenario.traffic is None:
        return client_of(scenario, model, speed, timeline["client"], run)[1]
    return run(traffic_of(scenario, model))


EVENTS = Path(__file__).with_name("timelines") / "events.yaml"
EVENTS_TRAFFIC = EVENTS.with_name("events-traffic.yaml")
EVENTS_STACK = (
    ("replicas: {min: 1, max: 2}\n        canary:", "replicas: {min: 3, max: 3}\n        canary:"),
    ("engine: sglang\n          percent", "engine: sglang\n          replicas: {min: 1, max: 1}\n"
     "          percent"),
)  # fmt: skip
"""What the stack of the events has instead of the example `engines`: three replicas, so that a
rollout takes one after another, and one of the canary."""
CANARY_AT, SETTLED_SECONDS = 240.0, 5.0
"""Time of the canary's event, and how long the twin's gateway may take to follow it."""


def previewed(file: Path) -> tuple[Plan, Platform]:
    """Return a stack file's plan, and its platform as the objects of a preview describe it."""
    states = preview_states(Engine(TwinPaths.default()), "local", text=file.read_text())
    plan = resolve(parse(json.dumps(platform_of(file))))
    return plan, describe(plan, manifests(states), states).platform


def of_events(example: str) -> str:
    """Return the stack of the events, from the file of the example `engines`."""
    for before, after in EVENTS_STACK:
        if example.count(before) != 1:
            raise ValueError(f"engines: must have once {before!r}")
        example = example.replace(before, after)
    return example


def canary_shares(asked: Sequence[tuple[float, bool]]) -> tuple[float, float]:
    """Return the canary's share of the answers before and after its event.

    Args:
        asked: Time of each answered request, and whether the canary answered it.
    """
    before = [of for at, of in asked if at < CANARY_AT - SETTLED_SECONDS]
    after = [of for at, of in asked if at > CANARY_AT + SETTLED_SECONDS]
    return sum(before) / len(before), sum(after) / len(after)


def shares_of_rehearsal(rehearsal: Rehearsal, asked: list[tuple[float, bool]]) -> None:
    """Let a rehearsal add to `asked` which requests go to a canary."""
    send = rehearsal.gates.route
    canaries = {at for at, (pool, _) in enumerate(rehearsal.gates.pools) if pool not in
                {model.name for model in rehearsal.platform.models}}  # fmt: skip

    def route(part: Arrivals, *others: Any, **named: Any) -> Any:
        pool, region = send(part, *others, **named)
        asked.extend(
            (at, to in canaries)
            for at, to in zip(part.seconds.tolist(), pool.tolist(), strict=True)
            if to >= 0
        )
        return pool, region

    rehearsal.gates.route = route


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
        points = points_of(ready, one.workload)
        near = [abs(sample.ready - ready_at(points, sample)) <= most for sample in one.recorded]
        found[f"{one.workload.region}/{one.workload.name}"] = sum(near) / len(near)
    return found


def points_of(
    ready: Mapping[str, Sequence[tuple[float, int]]], workload: Workload
) -> Sequence[tuple[float, int]]:
    """Return the ready replicas of a workload on the twin."""
    return ready.get(workload.name) or ready.get(f"{workload.region}/{workload.name}", ())


def ready_at(points: Sequence[tuple[float, int]], sample: Sample) -> int:
    number = 0
    for at, then in points:
        if at <= sample.seconds:
            number = then
    return number
