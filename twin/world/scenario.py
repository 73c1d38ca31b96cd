"""Scenarios: scheduled changes of the world's capacity.

A scenario is a YAML file in `twin/scenarios/`: the world at the start, then steps, each after some
time (`after`, on Google's clock) or when pods are ready (`when: ready`). They edit `capacity.yaml`.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, model_validator

from twin.host.file_problems import lines_of, read_yaml
from twin.host.paths import TwinPaths
from twin.world.capacity import Clock, StockLine, World, initial
from twin.world.events import Events
from twin.world.quota import QuotaLine
from twin.world.rules import Rules

SCENARIOS = Path(__file__).resolve().parents[1] / "scenarios"
_POLL_SECONDS = 0.2
_READY_KINDS = {"pod.ready"}


class ScenarioError(ValueError):
    """A scenario's file is not valid; the message names the field."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Change(_Strict):
    """A new number of chips for a stock line."""

    zone: str
    accelerator: str
    provisioning: Literal["on-demand", "spot", "flex-start", "reservation", "*"] = "*"
    reservation: str | None = None
    chips: int | Literal["unlimited"]

    def line(self) -> StockLine:
        """Return it as a stock line of the world."""
        return StockLine(**self.model_dump())


class Step(_Strict):
    """A step of a scenario."""

    title: str
    after: float | None = Field(default=None, ge=0)
    """Seconds after the previous step, on Google's clock."""
    when: Literal["ready"] | None = None
    """`ready`: after a pod becomes ready following the previous step."""
    timeout: float = Field(default=3600, gt=0)
    """Timeout for `when`, in seconds of Google's clock."""
    set: tuple[Change, ...] = ()
    outages: tuple[str, ...] | None = None
    """Zones that are down from now on; None for no change."""
    quota: tuple[QuotaLine, ...] | None = None
    """All limits from now on; None for no change."""
    date: AwareDatetime | None = None
    """Date of the twin's cloud from now on, which goes on with Google's clock; None for no
    change."""

    @model_validator(mode="after")
    def _has_one_moment(self) -> "Step":
        if (self.after is None) == (self.when is None):
            raise ValueError("set exactly one of 'after' and 'when'")
        return self


class Stage(_Strict):
    """A phase of traffic, with rate and duration in real time."""

    rate: float = Field(gt=0, le=1000)
    """Requests per second."""
    seconds: float = Field(gt=0, le=3600)


class Traffic(_Strict):
    """Traffic through the gateway during a scenario."""

    stages: tuple[Stage, ...] = Field(min_length=1)
    """Consecutive phases from the start of the scenario."""
    prompt_tokens: int = Field(ge=1, le=100_000)
    output_tokens: int = Field(ge=1, le=100_000)
    clients: tuple[str, ...] = ()
    """Regions of the requests in turn, for a stack with a front; empty for no region."""
    streamed_share: float = Field(default=1.0, ge=0, le=1)
    """Share of streamed responses, 0 to 1."""


class Scenario(_Strict):
    """A scenario's file."""

    name: str = Field(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$")
    description: str
    start: World = Field(default_factory=initial)
    """World at the start; by default that of a new twin."""
    steps: tuple[Step, ...] = ()
    traffic: Traffic | None = None
    """Traffic in addition to the client that always sends requests."""


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
    """Return the names of the built-in scenarios."""
    return sorted(file.stem for file in SCENARIOS.glob("*.yaml"))


def find(name: str) -> Path:
    """Return the file of a scenario: a built-in one, or a path."""
    own = SCENARIOS / f"{name}.yaml"
    return own if own.exists() else Path(name)


def changed(world: World, step: Step) -> World:
    """Return the world after a step; its lines replace matching lines, or come first."""
    new = {_key(change.line()): change.line() for change in step.set}
    kept = [new.pop(_key(line), line) for line in world.stock]
    outages = world.outages if step.outages is None else step.outages
    quota = world.quota if step.quota is None else step.quota
    stock = (*new.values(), *kept)
    update: dict[str, object] = {"stock": stock, "outages": outages, "quota": quota}
    if step.date is not None:
        update["clock"] = Clock(date=step.date)
    return world.model_copy(update=update)


def _key(line: StockLine) -> tuple[str, str, str, str | None]:
    return line.zone, line.accelerator, line.provisioning, line.reservation


class ScenarioRunner:
    """A run of a scenario on a twin."""

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
        """Set the world to the initial state of the scenario."""
        self._save(self.scenario.start)

    def run(
        self,
        on_step: Callable[[Step], None] | None = None,
        stop: threading.Event | None = None,
    ) -> bool:
        """Run the steps, after `prepare`.

        Args:
            on_step: called at each step.
            stop: event that ends the scenario early.

        Returns:
            False if a step's condition timed out, or `stop` was set.
        """
        stop = stop or threading.Event()
        since = time.time()
        for step in self.scenario.steps:
            if not self._wait(step, since, stop):
                return False
            since = time.time()
            world = changed(World.load(self._paths.capacity_file), step)
            self._save(world)
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

    def _save(self, world: World) -> None:
        """Save a world, whose clock starts now if it stands."""
        clock = world.clock
        if clock is not None and clock.since is None:
            running = Clock(date=clock.date, since=time.time(), speed=self._rules.speed)
            world = world.model_copy(update={"clock": running})
        world.save(self._paths.capacity_file)

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
