"""Reads plain values out of arguments, as programs of any language send them."""

from collections.abc import Mapping
from typing import Any

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.rungs import whole_number


def given(args: Mapping[str, Any], name: str, default: Any) -> Any:
    """Return a value, or the default where it is missing or null."""
    value = args.get(name)
    return default if value is None else value


def whole(
    args: Mapping[str, Any],
    name: str,
    low: int,
    high: int,
    *,
    default: int | None = None,
    where: str = "",
) -> int:
    """Return a whole number of a range; other languages send 5.0.

    Args:
        args: What was given.
        name: Key of the number.
        low: Smallest that is allowed.
        high: Largest that is allowed.
        default: Used where it is not given; a number without one is required.
        where: Path of `args` with a dot behind it, where they are nested.

    Raises:
        InputError: It is something else.
    """
    value = given(args, name, default)
    number = whole_number(value)
    if number is None or not low <= number <= high:
        raise InputError(f"{where}{name}", f"must be {low} to {high}", value)
    return number


def optional(args: Mapping[str, Any], name: str, low: int, high: int) -> int | None:
    """Return a whole number of a range, or None where it is not given.

    Raises:
        InputError: It is something else.
    """
    return None if args.get(name) is None else whole(args, name, low, high)


def one_of(
    args: Mapping[str, Any], name: str, words: tuple[str, ...], default: str | None = None
) -> str | None:
    """Return one of the words allowed, or the default where none is given.

    Raises:
        InputError: It is another word.
    """
    value = given(args, name, default)
    if value is not None and value not in words:
        raise InputError(name, f"must be one of {', '.join(words)}", value)
    return value


def positive(args: Mapping[str, Any], name: str, default: float | None = None) -> float:
    """Return a number above 0, or the default where none is given.

    Raises:
        InputError: It is something else.
    """
    value = given(args, name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise InputError(name, "must be a number above 0", value)
    return float(value)


def percent(args: Mapping[str, Any], name: str) -> float | None:
    """Return a percentage, or None where none is given.

    Raises:
        InputError: It is something else.
    """
    value = args.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 100:
        raise InputError(name, "must be 0 to 100", value)
    return float(value)
