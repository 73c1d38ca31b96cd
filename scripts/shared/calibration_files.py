"""The option `--calibration` of commands that estimate speeds."""

from pathlib import Path
from typing import Annotated

import typer

from gke_inference.catalogue.input_error import InputError
from infra.stack.problems import unread
from planner.speed.calibrated import Calibration, read_calibration
from planner.speed.measured import include
from scripts.terminal.console import CommandError, errors

CalibrationOption = Annotated[
    str | None,
    typer.Option(help="Also use the measurements in this file of `gke-inference calibrate`."),
]


_PRECISIONS = {16: "bf16", 8: "fp8", 4: "fp4"}


def precision_of(bits: int) -> str:
    """Return the name of the precision of weights with so many bits, as in a file's entries."""
    return _PRECISIONS.get(bits, f"int{bits}")


def calibration_of(file: str, option: str = "--calibration") -> Calibration:
    """Return the calibration of an option's file.

    Raises:
        CommandError: It cannot be read, or breaks a rule.
    """
    try:
        return read_calibration(Path(file))
    except InputError as error:
        raise CommandError(f"{option}: {error}") from None
    except OSError as error:
        raise CommandError(
            f"{option}: must be a readable file, got {file!r}: {unread(error)}"
        ) from None


def include_calibration(file: str | None) -> None:
    """Let the planner learn from a calibration, and report it in one line on standard error.

    Raises:
        CommandError: The file cannot be read, or breaks a rule.
    """
    if file is None:
        return
    found = calibration_of(file)
    try:
        include([entry.row() for entry in found.entries])
    except (KeyError, ValueError) as error:
        raise CommandError(f"--calibration: {file}: {error}") from None
    names = ", ".join(
        f"{each.model} on {each.chips} x {each.accelerator} ({each.measured[:10]})"
        for each in found.entries
    )
    errors.print(f"calibrated with {names}")
