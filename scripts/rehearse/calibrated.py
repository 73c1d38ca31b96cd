"""Step times of a calibration file for the engines of a rehearsal."""

from dataclasses import replace

from planner.speed.calibrated import Entry
from scripts.shared.calibration_files import (
    calibration_of,
    entry_of,
    name_of,
    report,
    report_nothing,
)
from scripts.terminal.console import CommandError
from simulator.engine.settings import Deployment
from simulator.rehearsal.description import Platform


def calibrated(platform: Platform, file: str, stack: str) -> Platform:
    """Return a platform with measured step times, and report them on standard error.

    Raises:
        CommandError: The file cannot be read, breaks a rule, is of another stack, or has no engine
            of the platform.
    """
    calibration = calibration_of(file, stack)
    found: list[Deployment] = []
    used: dict[int, Entry] = {}
    for each in platform.engines:
        entry = entry_of(calibration, each)
        if entry is not None:
            used[id(entry)] = entry
        found.append(each if entry is None else replace(each, step_factor=entry.step_factor))
    if not used and calibration.entries:
        entries = ", ".join(name_of(each) for each in calibration.entries)
        raise CommandError(
            f"--calibration: must have a model of the stack on its hardware, got {entries}"
        )
    for entry in used.values():
        report(entry)
    if not used:
        report_nothing(file)
    return replace(platform, engines=tuple(found))
