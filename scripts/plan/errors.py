"""Errors of the estimates, on held-out published measurements or on those of a file."""

import csv
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
from planner.speed.points import Point, points_of
from scripts.terminal.console import CommandError, console


def _print_group(title: str, group: Group) -> None:
    console.print(
        f"{title:<42} {len(group.compared):>4} points  median {group.median:>4.0%}  nine in ten "
        f"{group.nine_in_ten:>4.0%}  in their 80 % interval {group.inside:>4.0%}"
    )


def _points(file: Path) -> list[Point]:
    try:
        with file.open(newline="", encoding="utf-8") as stream:
            found = points_of(list(csv.DictReader(stream)))
    except OSError as error:
        raise CommandError(
            f"--against: must be a readable file, got {str(file)!r}: {unread(error)}"
        ) from None
    except ValueError as error:
        raise CommandError(
            f"--against: must be a CSV table of measurements, got {str(file)!r}: {error}"
        ) from None
    except KeyError as error:
        raise CommandError(
            f"--against: must have a column {error.args[0]}, got none in {str(file)!r}"
        ) from None
    if not found:
        raise CommandError(
            f"--against: must have rows with lengths and a known model, got none in {str(file)!r}"
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
        _print_group(str(file), of_new(_points(file)))
        return
    for by in LEFT_OUT:
        _print_group(f"held out by {by}", left_out(by))
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
