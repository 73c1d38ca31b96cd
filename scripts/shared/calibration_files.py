"""The option `--calibration` of commands that estimate speeds."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from gke_inference.catalogue.input_error import InputError
from gke_inference.sizing.shapes import shape_of
from infra.stack.problems import unread
from planner.speed.calibrated import Calibration, Entry, read_calibration
from planner.speed.measured import include, is_usable
from scripts.terminal.console import CommandError, errors
from simulator.engine.settings import Deployment

CalibrationOption = Annotated[
    str | None,
    typer.Option(help="Also use the measurements in this file of `gke-inference calibrate`."),
]


_PRECISIONS = {16: "bf16", 8: "fp8", 4: "fp4"}


def precision_of(bits: int) -> str:
    """Return the name of the precision of weights with so many bits, as in a file's entries."""
    return _PRECISIONS.get(bits, f"int{bits}")


def calibration_of(
    file: str, stack: str | None = None, option: str = "--calibration"
) -> Calibration:
    """Return the calibration of an option's file.

    Args:
        file: Path of the file.
        stack: Stack that it must be of; None for a command without one.
        option: Option that names the file.

    Raises:
        CommandError: It cannot be read, breaks a rule, or is of another stack.
    """
    try:
        found = read_calibration(Path(file))
    except InputError as error:
        raise CommandError(f"{option}: {error}") from None
    except OSError as error:
        raise CommandError(
            f"{option}: must be a readable file, got {file!r}: {unread(error)}"
        ) from None
    if stack is not None and found.stack not in (None, stack):
        raise CommandError(f"{option}: {file}: stack: must be {stack!r}, got {found.stack!r}")
    return found


def include_calibration(file: str | None, stack: str | None = None) -> None:
    """Let the planner learn from a calibration, and report it on standard error.

    Args:
        file: File of the option; None if it was omitted.
        stack: Stack of the command; None without one.

    Raises:
        CommandError: The file cannot be read, breaks a rule, or is of another stack.
    """
    if file is None:
        return
    found = calibration_of(file, stack)
    try:
        used = [entry for entry in found.entries if is_usable(entry.row())]
        include([entry.row() for entry in used])
    except (KeyError, ValueError) as error:
        raise CommandError(f"--calibration: {file}: {error}") from None
    for entry in found.entries:
        if entry not in used:
            why = "the planner estimates no speed of such a replica, so the entry is skipped"
            errors.print(f"not calibrated: {name_of(entry)}: {why}", soft_wrap=True)
            continue
        errors.print(
            f"calibrated: {name_of(entry)}: {entry.tpot_ms:.4g} ms between tokens at"
            f" {entry.batch:.1f} sequences, {entry.step_factor:g} times the engine model's"
            f" ({entry.measured[:10]})",
            soft_wrap=True,
        )
    if not found.entries:
        report_nothing(file)


def entry_of(calibration: Calibration, engine: Deployment) -> Entry | None:
    """Return the entry of an engine; weights in a bucket are known by the shape of their model."""
    label = engine.surroundings.accelerator.name
    for each in calibration.entries:
        known = (each.engine, each.accelerator, each.chips, each.precision)
        if known != (engine.program, label, engine.chips, precision_of(engine.shape.bits)):
            continue
        try:
            measured = replace(shape_of(each.model), bits=engine.shape.bits)
        except ValueError:
            continue
        if measured == engine.shape:
            return each
    return None


def report(entry: Entry) -> None:
    """Report on standard error that the engines of an entry take the measured times."""
    errors.print(
        f"calibrated: {name_of(entry)}: steps take {entry.step_factor:g} times as long"
        f" ({entry.measured[:10]})",
        soft_wrap=True,
    )


def report_nothing(file: str) -> None:
    """Report on standard error that nothing in a file changes an estimate."""
    errors.print(f"not calibrated: {file} has no entry: the models hold", soft_wrap=True)


def name_of(entry: Entry) -> str:
    """Return the replica and the rung of an entry, for messages."""
    return (
        f"{entry.model} ({entry.precision}) on {entry.chips} x {entry.accelerator} ({entry.rung})"
    )
