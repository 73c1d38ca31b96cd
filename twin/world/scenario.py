"""Scenarios: what happens to the world's capacity, and when.

A scenario is a YAML file in `twin/scenarios/`: the world at the start, then steps, each after some
time (`after`, on Google's clock) or when pods are ready (`when: ready`). They edit `capacity.yaml`.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from twin.host.file_problems import lines_of, read_yaml
from twin.host.paths import TwinPaths
from twin.world.capacity import StockLine, World
from twin.world.events import Events
from twin.world.quota import QuotaLine
from twin.world.rules import Rules

SCENARIOS = Path(__file__).resolve().parents[1] / "scenarios"
_POLL_SECONDS = 0.2
_READY_KINDS = {"pod.ready"}


class ScenarioError(ValueError):
    """A scenario's file is wrong; the message names the field."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Change(_Strict):
    """How many chips a line of the stock has from now on."""

    zone: str
    accelerator: str
    provisioning: Literal["on-demand", "spot", "flex-start", "reservation", "*"] = "*"
    reservation: str | None = None
    chips: int | Literal["unlimited"]

    def line(self) -> StockLine:
        """Return it as a line of the world."""
        return StockLine(**self.model_dump())


class Step(_Strict):
    """One thing that happens."""

    title: str
    after: float | None = Field(default=None, ge=0)
    """Seconds after the step before, on Google's clock."""
    when: Literal["ready"] | None = None
    """`ready`: when a pod became ready after the step before."""
    timeout: float = Field(default=3600, gt=0)
    """How long `when` is waited for, in seconds on Google's clock."""
    set: tuple[Change, ...] = ()
    outages: tuple[str, ...] | None = None
    """Zones that are down from now on; None leaves them as they are."""
    quota: tuple[QuotaLine, ...] | None = None
    """Limits from now on, all of them; None leaves them as they are."""

    @model_validator(mode="after")
    def _has_one_moment(self) -> "Step":
        if (self.after is None) == (self.when is None):
            raise ValueError("set exactly one of 'after' and 'when'")
        return self


class Stage(_Strict):
    """A stretch of traffic; never sped up, so both are in real time."""

    rate: float = Field(gt=0, le=1000)
    """Requests a second."""
    seconds: float = Field(gt=0, le=3600)


class Traffic(_Strict):
    """Requests that come through the gateway while a scenario plays."""

    stages: tuple[Stage, ...] = Field(min_length=1)
    """One after the other, from the start of the scenario."""
    prompt_tokens: int = Field(ge=1, le=100_000)
    output_tokens: int = Field(ge=1, le=100_000)
    clients: tuple[str, ...] = ()
    """Regions from which requests come in turn, for a stack with a front; empty: nobody says."""
    streamed_share: float = Field(default=1.0, ge=0, le=1)
    """Part of the answers that are streamed."""


class Scenario(_Strict):
    """A scenario's file."""

    name: str = Field(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$")
    description: str
    start: World = World()
    steps: tuple[Step, ...] = ()
    traffic: Traffic | None = None
    """Beside the one client that always asks."""


def load(file: Path) -> Scenario:
    """Read a scenario.

    Raises:
        ScenarioError: the file is missing or wrong.
    """
    try:
        document = read_yaml(file)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ScenarioError(f"{file}: cannot be read: {reason}") from None
    except ValueError as error:
        raise ScenarioError(str(error)) from None
    try:
        return Scenario.model_validate(document)
    except ValidationError as error:
        raise ScenarioError(lines_of(file.name, error, document)) from None


def names() -> list[str]:
    """Return the names of the scenarios that come with the twin."""
    return sorted(file.stem for file in SCENARIOS.glob("*.yaml"))


def find(name: str) -> Path:
    """Return the file of a scenario: one that comes with the twin, or a path."""
    own = SCENARIOS / f"{name}.yaml"
    return own if own.exists() else Path(name)


def changed(world: World, step: Step) -> World:
    """Return the world after a step: lines replace lines about the same thing, or come first."""
    new = {_key(change.line()): change.line() for change in step.set}
    kept = [new.pop(_key(line), line) for line in world.stock]
    outages = world.outages if step.outages is None else step.outages
    quota = world.quota if step.quota is None else step.quota
    stock = (*new.values(), *kept)
    return world.model_copy(update={"stock": stock, "outages": outages, "quota": quota})


def _key(line: StockLine) -> tuple[str, str, str, str | None]:
    return line.zone, line.accelerator, line.provisioning, line.reservation


class ScenarioRunner:
    """Plays one scenario on a twin."""

    def __init__(self, paths: TwinPaths, file: Path) -> None:
        """Read the scenario.

        Raises:
            ScenarioError: the file is missing or wrong.
        """
        self._paths = paths
        self.scenario = load(file)
        self._events = Events(paths.events_file)
        self._rules = Rules.of(paths)

    def prepare(self) -> None:
        """Put the world into the state in which the scenario starts."""
        self.scenario.start.save(self._paths.capacity_file)

    def run(
        self,
        on_step: Callable[[Step], None] | None = None,
        stop: threading.Event | None = None,
    ) -> bool:
        """Play the steps; `prepare` comes before.

        Args:
            on_step: told of each step when it happens.
            stop: ends the scenario early.

        Returns:
            False if a step's condition was waited for in vain, or `stop` was set.
        """
        stop = stop or threading.Event()
        since = time.time()
        for step in self.scenario.steps:
            if not self._wait(step, since, stop):
                return False
            since = time.time()
            world = changed(World.load(self._paths.capacity_file), step)
            world.save(self._paths.capacity_file)
            self._events.emit(
                "scenario.step",
                self.scenario.name,
                step.title,
                set=[change.model_dump() for change in step.set],
                outages=list(world.outages),
            )
            if on_step is not None:
                on_step(step)
        return True

    def _wait(self, step: Step, since: float, stop: threading.Event) -> bool:
        if step.after is not None:
            return not stop.wait(max(0.0, since + step.after / self._rules.speed - time.time()))
        end = since + step.timeout / self._rules.speed
        while time.time() < end:
            if any(event["kind"] in _READY_KINDS for event in self._events.read(since)):
                return True
            if stop.wait(_POLL_SECONDS):
                return False
        return False
