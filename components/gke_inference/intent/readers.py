"""Reads plain values from arguments, as programs in any language send them."""

from collections.abc import Mapping
from typing import Any

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.rungs import whole_number


def given(args: Mapping[str, Any], name: str, default: Any) -> Any:
    """Return a value, or the default if it is missing or null."""
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
    """Return a whole number in a range. Other languages send 5.0.

    Args:
        args: Given arguments.
        name: Key of the number.
        low: Minimum.
        high: Maximum.
        default: Value if not given. Without one, the number is required.
        where: Path of nested `args`, with a trailing dot.

    Raises:
        InputError: The value is invalid.
    """
    value = given(args, name, default)
    number = whole_number(value)
    if number is None or not low <= number <= high:
        raise InputError(f"{where}{name}", f"must be {low} to {high}", value)
    return number


def optional(args: Mapping[str, Any], name: str, low: int, high: int) -> int | None:
    """Return a whole number in a range, or None if not given.

    Raises:
        InputError: The value is invalid.
    """
    return None if args.get(name) is None else whole(args, name, low, high)


def wholes(args: Mapping[str, Any], name: str) -> tuple[int, ...]:
    """Return a list of whole numbers, empty if not given.

    Raises:
        InputError: An element is not a whole number.
    """
    found: list[int] = []
    for at, value in enumerate(args.get(name) or ()):
        number = whole_number(value)
        if number is None:
            raise InputError(f"{name}[{at}]", "must be a whole number", value)
        found.append(number)
    return tuple(found)


def texts(args: Mapping[str, Any], name: str) -> dict[str, str]:
    """Return values in command-line notation, by name. YAML's true is `true`."""
    values: Mapping[str, Any] = args.get(name) or {}
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in values.items()
    }


def one_of(
    args: Mapping[str, Any], name: str, words: tuple[str, ...], default: str | None = None
) -> str | None:
    """Return an allowed word, or the default if none is given.

    Raises:
        InputError: The value is not allowed.
    """
    value = given(args, name, default)
    if value is not None and value not in words:
        raise InputError(name, f"must be one of {', '.join(words)}", value)
    return value


def positive(args: Mapping[str, Any], name: str, default: float | None = None) -> float:
    """Return a number above 0, or the default if none is given.

    Raises:
        InputError: The value is invalid.
    """
    value = given(args, name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise InputError(name, "must be a number above 0", value)
    return float(value)


def percent(args: Mapping[str, Any], name: str) -> float | None:
    """Return a percentage, or None if none is given.

    Raises:
        InputError: The value is invalid.
    """
    value = args.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 100:
        raise InputError(name, "must be 0 to 100", value)
    return float(value)
