"""Faults of a rehearsal: scenarios of the twin, at times of the day."""

import re
from collections.abc import Sequence
from dataclasses import replace

from scripts.shared.scenario_files import scenario_file
from scripts.terminal.console import CommandError
from simulator.rehearsal.description import Platform
from twin.world import scenario as scenarios
from twin.world.capacity import World
from twin.world.scenario import Step

_AT = re.compile(r"(?P<name>.+?)(@(?P<hours>\d{1,3}):(?P<minutes>[0-5]\d))?")


def with_faults(platform: Platform, faults: Sequence[str]) -> Platform:
    """Return a platform to which scenarios happen.

    The world at the start is that of the scenarios; reservations that the stack names are there
    unless a scenario has another line for them.

    Args:
        platform: The platform.
        faults: Scenarios of the twin, by name or path, each with `@HH:MM` after the start for its
            first step's time to count from; 0:00 by default.

    Raises:
        CommandError: A scenario does not exist, is invalid, or waits for an event of the twin.
    """
    timed: list[tuple[float, Step]] = []
    world = platform.world
    for fault in faults:
        scenario, at = _read(fault)
        world = _joined(world, scenario.start)
        for step in scenario.steps:
            if step.after is None:
                raise CommandError(
                    f"--fault: {scenario.name}: steps: must have 'after', got {step.title!r} with "
                    "'when'"
                )
            at += step.after
            timed.append((at, step))
    timed.sort(key=lambda each: each[0])
    steps: list[Step] = []
    before = 0.0
    for at, step in timed:
        steps.append(step.model_copy(update={"after": at - before}))
        before = at
    return replace(platform, world=world, steps=tuple(steps))


def _read(fault: str) -> tuple[scenarios.Scenario, float]:
    match = _AT.fullmatch(fault)
    if match is None:
        raise CommandError(f"--fault: must be SCENARIO or SCENARIO@HH:MM, got {fault!r}")
    try:
        found = scenarios.load(scenario_file(match["name"]))
    except CommandError as error:
        raise CommandError(str(error).replace("--scenario", "--fault")) from None
    except scenarios.ScenarioError as error:
        raise CommandError(f"--fault: {error}") from None
    at = 3600.0 * int(match["hours"] or 0) + 60.0 * int(match["minutes"] or 0)
    return found, at


def _joined(world: World, start: World) -> World:
    """Return a world with the lines of a scenario before those of the stack."""
    update = {
        "stock": (*start.stock, *world.stock),
        "quota": (*start.quota, *world.quota),
        "default": start.default,
    }
    return world.model_copy(update=update)
