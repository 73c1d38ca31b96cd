"""Settings of a program: a JSON object whose names are the fields of a dataclass.

An error is one line: field, rule and value.
"""

import json
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar, cast

_KINDS: Final[dict[Any, tuple[tuple[type, ...], str]]] = {
    float: ((int, float), "a number"),
    int: ((int,), "a whole number"),
    str: ((str,), "a string"),
    dict[str, Any]: ((dict,), "an object"),
    tuple[str, ...]: ((list, tuple), "a list of strings"),
}
_T = TypeVar("_T")


class SettingsError(ValueError):
    """The settings cannot be used; the message has field, rule and value."""


def read_file(path: Path) -> str:
    """Return the text of a file of settings.

    Raises:
        SettingsError: It cannot be read.
    """
    try:
        return path.read_text()
    except OSError as error:
        raise SettingsError(f"{path}: must be a JSON file, got {error}") from None


def read_object(text: str, kind: type, where: str = "settings") -> dict[str, Any]:
    """Return the JSON object in a text, whose names are all fields of a dataclass.

    Raises:
        SettingsError: It is no JSON object, or has an unknown name. Starts with `where` or a name.
    """
    try:
        content: Any = json.loads(text)
    except ValueError as error:
        raise SettingsError(f"{where}: must be JSON, got {error}") from None
    if not isinstance(content, dict):
        raise SettingsError(f"{where}: must be a JSON object, got {type(content).__name__}")
    given = cast("dict[str, Any]", content)
    known = sorted(each.name for each in fields(kind))
    for name in given:
        if name not in known:
            raise SettingsError(f"{name}: must be one of {', '.join(known)}, got {name!r}")
    return given


def read(kind: type[_T], text: str, where: str = "settings") -> _T:
    """Return the settings in a JSON text, for a dataclass of plain values.

    Raises:
        SettingsError: A field is missing, unknown or of another kind.
    """
    given = read_object(text, kind, where)
    known = {each.name: each for each in fields(cast("Any", kind))}
    for name, value in given.items():
        check_kind(name, known[name].type, value)
        if isinstance(value, list):
            given[name] = tuple(cast("list[str]", value))
    for name, each in known.items():
        if each.default is MISSING and given.get(name) in (None, "", (), {}):
            raise SettingsError(f"{name}: must be set, got nothing")
    return kind(**given)


def check_kind(field: str, kind: Any, value: object) -> None:
    """Check that a value is what the annotation of its field says.

    Raises:
        SettingsError: It is not.
    """
    kinds, words = _KINDS[kind]
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise SettingsError(f"{field}: must be {words}, got {value!r}")


def check_range(field: str, value: float, least: float, most: float | None = None) -> None:
    """Check that a number is in its range; without `most`, it has no upper end.

    Raises:
        SettingsError: It is not.
    """
    if value < least or (most is not None and value > most):
        rule = f"{least} or more" if most is None else f"{least} to {most}"
        raise SettingsError(f"{field}: must be {rule}, got {value}")


def check_bounds(program: str, settings: object) -> None:
    """Check the numbers that a stack sets: their ranges are those of bounds.json.

    Raises:
        SettingsError: One is out of its range.
    """
    for field, found in _bounds()[program].items():
        value, above, most = getattr(settings, field), found.get("above"), found["most"]
        if above is None:
            check_range(field, value, found["least"], most)
        elif not above < value <= most:
            rule = f"must be more than {above} and at most {most}"
            raise SettingsError(f"{field}: {rule}, got {value}")


@cache
def _bounds() -> dict[str, dict[str, dict[str, float]]]:
    """Return the ranges by program and field. `make docs` writes them from a stack's types."""
    return json.loads(Path(__file__).with_name("bounds.json").read_text())


def check_endpoint(endpoint: str) -> None:
    """Check the URL of the gateway.

    Raises:
        SettingsError: It is no URL.
    """
    if not endpoint.startswith(("http://", "https://")):
        raise SettingsError(f"endpoint: must be a URL, got {endpoint!r}")
