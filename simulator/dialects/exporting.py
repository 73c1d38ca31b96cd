"""An engine's metrics, with the names of a server other than vLLM."""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from planner.speed.roofline import CostModel, StepLoad
from simulator.engine.exposition import Metric
from simulator.engine.metrics import EngineMetrics
from simulator.engine.request import FinishReason, Request
from simulator.engine.scheduler import Scheduler
from simulator.engine.settings import Deployment

_DATA = Path(__file__).with_name("data")


@cache
def _document(engine: str) -> Mapping[str, Any]:
    return json.loads((_DATA / f"{engine}.json").read_text())


def release(engine: str) -> str:
    """Return the release of a server, such as `0.5.23`."""
    return str(_document(engine)["version"])


def recorded(engine: str) -> Mapping[str, Any]:
    """Return the exported metrics of a release: name to type, labels, help and buckets."""
    return _document(engine)["metrics"]


class Families:
    """Metric families of one server, from the recorded families of its release.

    Args:
        engine: name of the server.
        given: values of labels that are the same in all series.
    """

    def __init__(self, engine: str, given: Mapping[str, str]) -> None:
        self._recorded = recorded(engine)
        self._given = given
        self._made: dict[str, Metric] = {}

    def make(self, name: str, buckets: Iterable[float] = ()) -> Metric:
        """Return a new, empty family.

        Raises:
            KeyError: the release has no family with this name.
        """
        if name not in self._made:
            entry = self._recorded[name]
            self._made[name] = Metric(
                name,
                entry["type"],
                entry["help"],
                tuple(entry["labels"]),
                tuple(entry.get("buckets", buckets)),
            )
        return self._made[name]

    def labels(self, name: str, **more: str) -> tuple[str, ...]:
        """Return the label values of one series of a family."""
        values = {**self._given, **more}
        return tuple(values[label] for label in self._recorded[name]["labels"])

    def set(self, name: str, value: float, **more: str) -> None:
        """Set a gauge."""
        self.make(name).set(value, *self.labels(name, **more))

    def add(self, name: str, amount: float, **more: str) -> None:
        """Raise a counter."""
        self.make(name).add(amount, *self.labels(name, **more))

    def observe(self, name: str, value: float, times: int = 1, **more: str) -> None:
        """Observe a value in a histogram."""
        self.make(name).observe(value, *self.labels(name, **more), times=times)

    def render(self) -> str:
        """Return the families that have a series, in the text format."""
        return "".join(metric.render() for metric in self._made.values() if not metric.is_empty)


class OtherMetrics(EngineMetrics):
    """The metrics of an engine behind another server, recorded by the core and named by the server.

    A server overrides the methods for its metrics.
    """

    def __init__(self, deployment: Deployment, families: Families) -> None:
        self.families = families
        super().__init__(deployment)

    def on_state(self, scheduler: Scheduler) -> None:
        """Record the running and waiting requests."""

    def on_step(self, load: StepLoad) -> None:
        """Record a finished step."""

    def on_first_token(self, request: Request, seconds: float) -> None:
        """Record a request's first token and its time since arrival."""

    def on_tokens(self, seconds: float, count: int) -> None:
        """Record another token of some requests and the time since their previous one."""

    def on_end(self, request: Request, now: float) -> None:
        """Record a completed request."""

    def on_abort(self, request: Request) -> None:
        """Record an aborted request."""

    def state(self, scheduler: Scheduler, max_adapters: int | None) -> None:
        """Record the running and waiting requests."""
        super().state(scheduler, max_adapters)
        self.on_state(scheduler)

    def step(self, load: StepLoad, cost: CostModel, *, preempted: int = 0) -> None:
        """Record a finished step."""
        super().step(load, cost, preempted=preempted)
        self.on_step(load)

    def answered(self, requests: Iterable[Request], now: float) -> None:
        """Record another token of each request, or its vector."""
        items = list(requests)
        for request in items:
            if request.first_token is None:
                self.on_first_token(request, now - request.arrival)
            elif request.last_token is not None:
                self.on_tokens(now - request.last_token, 1)
        super().answered(items, now)

    def decoded(self, seconds: float, count: int) -> None:
        """Record another token of some requests, with the same time since their previous one."""
        super().decoded(seconds, count)
        self.on_tokens(seconds, count)

    def aborted(self, request: Request, now: float) -> None:
        """Record an aborted request."""
        self.finished(request, now)

    def finished(self, request: Request, now: float) -> None:
        """Record the end of a request."""
        super().finished(request, now)
        if request.finished in (FinishReason.STOP, FinishReason.LENGTH):
            self.on_end(request, now)
        else:
            self.on_abort(request)

    def render(self) -> str:
        """Return all metrics in the text format."""
        self.before_render()
        return self.families.render()
