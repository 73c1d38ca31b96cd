"""Step times of a calibration file for the engines of a rehearsal."""

from dataclasses import replace

from gke_inference.sizing.shapes import shape_of
from planner.speed.calibrated import Calibration, Entry
from scripts.shared.calibration_files import calibration_of, precision_of
from scripts.terminal.console import CommandError, errors
from simulator.engine.settings import Deployment
from simulator.rehearsal.description import Platform


def calibrated(platform: Platform, file: str) -> Platform:
    """Return a platform with measured step times, and report them on standard error.

    Raises:
        CommandError: The file cannot be read, breaks a rule, or has no engine of the platform.
    """
    calibration = calibration_of(file)
    found: list[Deployment] = []
    used: dict[tuple[str, str, int], Entry] = {}
    for each in platform.engines:
        entry = _entry(calibration, each)
        if entry is not None:
            used[entry.model, entry.accelerator, entry.chips] = entry
        found.append(each if entry is None else replace(each, step_factor=entry.step_factor))
    if not used:
        entries = ", ".join(_name(each) for each in calibration.entries)
        raise CommandError(
            f"--calibration: must have a model of the stack on its hardware, got {entries}"
        )
    for entry in used.values():
        errors.print(
            f"calibrated: {_name(entry)}: steps take {entry.step_factor:g} times as long "
            f"({entry.measured[:10]})"
        )
    return replace(platform, engines=tuple(found))


def _entry(calibration: Calibration, engine: Deployment) -> Entry | None:
    """Return the entry of an engine; weights in a bucket are known by the shape of their model."""
    label = engine.surroundings.accelerator.name
    for each in calibration.entries:
        hardware = (each.accelerator, each.chips, each.precision)
        if hardware != (label, engine.chips, precision_of(engine.shape.bits)):
            continue
        try:
            measured = replace(shape_of(each.model), bits=engine.shape.bits)
        except ValueError:
            continue
        if measured == engine.shape:
            return each
    return None


def _name(entry: Entry) -> str:
    return f"{entry.model} ({entry.precision}) on {entry.chips} x {entry.accelerator}"
