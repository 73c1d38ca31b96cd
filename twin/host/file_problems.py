"""Errors in files that users edit: one line per field, with rule and value."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gke_inference.catalogue.input_error import yaml_problem
from gke_inference.catalogue.user_yaml import user_yaml

_SHOULD = "Input should be "
_MAPPING = "a mapping of fields"
_WORDS = {
    "a valid boolean": "true or false",
    "a valid integer": "a whole number",
    "a valid string": "text",
    "a valid tuple": "a list",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "a valid ": "a ",
}
"""Replacements for the validator's wording."""


def read_yaml(file: Path) -> Any:
    """Return the content of a YAML file.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is not valid YAML; the message is one line with its name.
    """
    return parse_yaml(file.name, file.read_bytes())


def parse_yaml(name: str, content: bytes) -> Any:
    """Return the content of a YAML file that was read.

    Raises:
        ValueError: the content is not valid YAML; the message is one line with the file's name.
    """
    try:
        return user_yaml(content.decode())
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(f"{name} is not YAML: {yaml_problem(error)}") from None


def lines_of(file: str, error: ValidationError, document: Any) -> str:
    """Return `FILE: FIELD: must be …, got …`, one line per field.

    Args:
        file: name of the file.
        error: error of the validator, which lists each allowed kind of a field.
        document: content of the file.
    """
    by_field: dict[str, list[ErrorDetails]] = {}
    for details in error.errors(include_url=False):
        by_field.setdefault(_field(details, document), []).append(details)
    return "\n".join(
        f"{file}: {field + ': ' if field else ''}{rule_of(found)}"
        for field, found in by_field.items()
    )


def _field(details: ErrorDetails, document: Any) -> str:
    """Return the path of a field, without the validator's names of kinds."""
    path, here = "", document
    for part in details["loc"]:
        if isinstance(part, int) and isinstance(here, list) and part < len(here):
            path, here = f"{path}[{part}]", cast("list[Any]", here)[part]
        elif isinstance(here, dict) and (part in here or details["type"] == "missing"):
            path += f".{part}" if path else str(part)
            here = here.get(part)
    return path


def rule_of(found: Sequence[ErrorDetails]) -> str:
    """Return the requirement for a field, and its value.

    Args:
        found: the validator's errors for the field, one for each allowed kind.
    """
    first = found[0]
    value: Any = first["input"]
    if first["type"] == "missing":
        return "is required"
    if first["type"] == "extra_forbidden":
        return "is no field here"
    wanted = list(dict.fromkeys(_wanted(found)))
    if not wanted:
        return first["msg"].removeprefix("Value error, ")
    shown = "a list" if isinstance(value, list) else repr(value)
    return f"must be {' or '.join(wanted)}, got {shown}"


def _wanted(found: Sequence[ErrorDetails]) -> Iterator[str]:
    for details in found:
        if details["type"].startswith(("model_", "dict_", "dataclass_")):
            yield _MAPPING
        elif details["msg"].startswith(_SHOULD):
            words = details["msg"].removeprefix(_SHOULD).partition(", unable")[0]
            for theirs, ours in _WORDS.items():
                words = words.replace(theirs, ours)
            yield words
