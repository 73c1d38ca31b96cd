"""Errors of the estimates, on held-out published measurements or on those of a file."""

from collections.abc import Mapping
from pathlib import Path
from statistics import median

from infra.stack.problems import unread
from planner.speed.all_to_all import kernels
from planner.speed.errors import (
    LEFT_OUT,
    Group,
    contests,
    families,
    left_out,
    of_new,
    splits,
)
from planner.speed.measured import rows_of
from planner.speed.points import QUANTITIES, points_of
from scripts.terminal.console import CommandError, console


def _print_group(title: str, group: Group) -> None:
    console.print(
        f"{title:<42} {len(group.compared):>4} points  median {group.median:>4.0%}  nine in ten "
        f"{group.nine_in_ten:>4.0%}  in their 80 % interval {group.inside:>4.0%}"
    )


def measured_rows(file: Path, option: str) -> list[Mapping[str, str]]:
    """Return the measurements in a file.

    Raises:
        CommandError: It has none that the planner can use.
    """
    try:
        found = rows_of(file)
        usable = points_of(found)
    except OSError as error:
        raise CommandError(
            f"{option}: must be a readable file, got {str(file)!r}: {unread(error)}"
        ) from None
    except ValueError as error:
        raise CommandError(
            f"{option}: must be a CSV table of measurements, or results of `vllm bench serve` in"
            f" a .json or .jsonl file, got {str(file)!r}: {error}"
        ) from None
    except KeyError as error:
        raise CommandError(
            f"{option}: must have a column {error.args[0]}, got none in {str(file)!r}"
        ) from None
    if not usable:
        raise CommandError(
            f"{option}: must have rows with lengths, an accelerator of GKE and a known model, got"
            f" none in {str(file)!r}"
        )
    return found


def _print_kernels() -> None:
    """Print the errors of all-to-all messages.

    Not held out; only two of them were used for a fit.
    """
    console.print("\nAll-to-all kernels of DeepEP, with the network's assumed rate:")
    for backend in dict.fromkeys(one.backend for one in kernels()):
        errors = sorted(abs(one.error) for one in kernels() if one.backend == backend)
        console.print(
            f"{backend:<42} {len(errors):>4} points  median {median(errors):>4.0%}  "
            f"worst {errors[-1]:>4.0%}"
        )


def print_errors(file: Path | None) -> None:
    """Print the errors of the estimates, on held-out measurements or on those of a file.

    Raises:
        CommandError: The file is not a table of measurements.
    """
    if file is not None:
        group = of_new(points_of(measured_rows(file, "--against")))
        for quantity in QUANTITIES:
            if group.of(quantity).compared:
                _print_group(quantity, group.of(quantity))
        return
    for quantity in QUANTITIES:
        console.print(f"{quantity[0].upper()}{quantity[1:]}, held out with others:")
        for by in LEFT_OUT:
            _print_group(by, left_out(by).of(quantity))
    console.print("\nBy family, each measurement held out:")
    for group in families():
        _print_group(group.name, group)
    console.print("\nBy split, each measurement held out, and all of the split:")
    for group in splits():
        _print_group(group.name, group)
    _print_kernels()
    choices = contests("model")
    first, found = (sum(getattr(one, name) for one in choices) for name in ("is_first", "is_found"))
    console.print(
        f"\nHardware ranked without measurements of the model: best one first in {first} of "
        f"{len(choices)}, among the first two in {found} of {len(choices)}"
    )
