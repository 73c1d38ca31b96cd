"""Problems of a stack as user-facing messages: field, rule and value.

The validator reports errors with its own type names. This module turns each into one sentence, and
suggests the right word for a misspelled field or value.
"""

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, cast

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gke_inference.catalogue.engines import retired
from gke_inference.catalogue.input_error import Bare, InputError
from infra.stack import Platform
from infra.stack.base.fields import PATTERN_WORDS

RENAMED: Final[Mapping[tuple[str, str], str]] = {
    ("Model", "pictures"): "images",
    ("PersonalImages", "most_images"): "max_images",
    ("PersonalImages", "most_pictures"): "max_photos",
    ("PersonalImages", "most_sets"): "max_open_sets",
}
"""New names of fields, by the part of the stack and the old name."""
_KEY: Final = "[key]"
_LONGEST_VALUE: Final = 60
_TYPE_WORDS: Final = {
    "bool_type": "true or false",
    "dict_type": "a mapping of names to values",
    "float_type": "a number",
    "int_from_float": "a whole number",
    "int_type": "a whole number",
    "model_type": "a mapping of fields",
    "string_type": "text",
    "tuple_type": "a list",
}
_SCALAR_BRANCHES: Final = ("bool", "int", "float", "str")
_SCALAR_TYPES: Final = ("boolean", "integer", "number", "string")
_ENCRYPTED_RULE: Final = (
    "must not be an encrypted value: a stack names secrets, such as those of engine_secrets"
)
_SCALAR_RULE: Final = "must be true, false, a number or text"
_Reader = Callable[[ErrorDetails, Sequence[str | int]], InputError]
"""Converts one validator error at a location in the stack."""


class StackError(Exception):
    """An invalid stack, with one line per problem."""

    def __init__(self, problems: Iterable[InputError]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problem.sentence() for problem in self.problems))


def join(*parts: str | int) -> str:
    """Return the path of a field: `join("capacity", "a", "rungs", 0)` is `capacity.a.rungs[0]`."""
    path = ""
    for part in parts:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            path += f".{part}" if path else part
    return path


def unread(error: Exception) -> str:
    """Return why a file cannot be read, without errno and path. The caller names the file."""
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    line = " ".join(reason.split())
    return line[:1].lower() + line[1:]


def suggest(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` if a word resembles a known one, otherwise an empty string."""
    near = _near(word.lower(), sorted(known))
    return f"; did you mean {near!r}?" if near else ""


def _near(word: str, words: Sequence[str]) -> str | None:
    longer = [other for other in words if len(word) > 2 and other.startswith(word)]
    part = [other for other in words if len(word) > 1 and word in re.split("[-_]", other)]
    inside = [other for other in words if other in re.split("[-_./]", word)]
    found = longer or part or inside or difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    if not found and len(word) > 3:  # a typo in the first part of a long name
        heads = {other[: len(word) + 1]: other for other in reversed(words)}
        found = [heads[each] for each in difflib.get_close_matches(word, heads, n=1, cutoff=0.8)]
    return found[0] if found else None


def one_of(path: str, value: str, known: Iterable[str]) -> InputError:
    """Return the error for a word that is not in a list, with the closest match."""
    words = list(known)
    return InputError(path, f"must be one of {', '.join(words)}", value, suggest(value, words))


def problems_of(error: ValidationError) -> list[InputError]:
    """Return the problems that the validator found, in stack order."""
    every = error.errors(include_url=False)
    problems = [_problem(details) for details in every if not _is_consequence(details)]
    return list(dict.fromkeys(problems))  # each branch of a scalar yields the same problem


def _is_consequence(details: ErrorDetails) -> bool:
    """Return whether a list is too short only because some of its entries are invalid.

    The validator compares the number of valid entries with the limit.
    """
    if details["type"] != "too_short":
        return False
    return len(details["input"]) >= details.get("ctx", {})["min_length"]


def _problem(details: ErrorDetails) -> InputError:
    location = [part for part in details["loc"] if part != _KEY]
    if _is_encrypted(details["input"]):
        where = location[:-1] if _is_branch(location) else location
        return InputError(join(*where), _ENCRYPTED_RULE)
    if _is_branch(location):
        return InputError(join(*location[:-1]), _SCALAR_RULE, _shown(details["input"]))
    return _MESSAGES.get(details["type"], _other)(details, location)


def _is_branch(location: Sequence[str | int]) -> bool:
    """Return whether a location ends with a type of a scalar, not with one of its fields."""
    if not location or location[-1] not in _SCALAR_BRANCHES:
        return False
    return _schema_at(location[:-1]).get("type") in _SCALAR_TYPES


def _is_encrypted(value: Any) -> bool:
    """Return whether a value is what `pulumi config set --path --secret` writes."""
    return isinstance(value, Mapping) and set(cast(Mapping[str, Any], value)) == {"secure"}


def _shown(value: Any) -> Bare:
    """Return a value in YAML notation, shortened."""
    text = json.dumps(value, default=str)
    return Bare(text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}...")


def _unknown(details: ErrorDetails, location: Sequence[str | int]) -> InputError:
    here, field = _schema_at(location[:-1]), str(location[-1])
    new = RENAMED.get((here.get("title", ""), field))
    if new is not None:
        return InputError(join(*location), f"is renamed to {new!r}")
    known = list(here.get("properties", {}))
    hint = suggest(field, known) or "; the fields here are " + ", ".join(known)
    return InputError(join(*location), "is not a field of a stack", note=hint)


def _missing(details: ErrorDetails, location: Sequence[str | int]) -> InputError:
    meaning = " ".join(_schema_at(location).get("description", "").split())
    sentence = re.split("; |[.] ", meaning)[0].rstrip(".")
    return InputError(join(*location), f"is required: {sentence}" if sentence else "is required")


def _type(details: ErrorDetails, location: Sequence[str | int]) -> InputError:
    value = details["input"]
    wanted = _TYPE_WORDS[details["type"]]
    hint = " (without the quotes)" if isinstance(value, str) and _is_scalar(value, wanted) else ""
    if wanted == "text" and isinstance(value, int | float):
        hint = " (put it in quotes)"
    return InputError(join(*location), f"must be {wanted}", _shown(value), hint)


def _is_scalar(text: str, wanted: str) -> bool:
    """Return whether a text without quotes would have the wanted type."""
    if wanted == _TYPE_WORDS["bool_type"]:
        return text in {"true", "false"}
    is_number = wanted in {_TYPE_WORDS["int_type"], _TYPE_WORDS["float_type"]}
    return is_number and text.removeprefix("-").replace(".", "", 1).isdigit()


def _word(details: ErrorDetails, location: Sequence[str | int]) -> InputError:
    known = [str(word) for word in _schema_at(location).get("enum", ())]
    value = str(details["input"])
    if location[-1] == "engine" and value in retired():
        rule = f"must be one of {', '.join(known)}"
        return InputError(join(*location), rule, value, f": {retired()[value]}")
    return one_of(join(*location), value, known)


def _pattern(details: ErrorDetails, location: Sequence[str | int]) -> InputError:
    pattern = str(details.get("ctx", {})["pattern"])
    wanted = PATTERN_WORDS.get(pattern, f"text that matches {pattern}")
    return InputError(join(*location), f"must be {wanted}", _shown(details["input"]))


def _bound(words: str, name: str) -> _Reader:
    def problem(details: ErrorDetails, location: Sequence[str | int]) -> InputError:
        rule = f"must be {words} {details.get('ctx', {})[name]}"
        return InputError(join(*location), rule, _shown(details["input"]))

    return problem


def _length(words: str, name: str) -> _Reader:
    def problem(details: ErrorDetails, location: Sequence[str | int]) -> InputError:
        limit = details.get("ctx", {})[name]
        value = details["input"]
        if not isinstance(value, str):
            entries = "entry" if limit == 1 else "entries"
            return InputError(join(*location), f"must have {words} {limit} {entries}", len(value))
        rule = f"must have {words} {limit} characters"
        return InputError(join(*location), rule, _shown(value), f" with {len(value)}")

    return problem


def _other(details: ErrorDetails, location: Sequence[str | int]) -> InputError:
    return InputError(join(*location), f"is not valid: {details['msg']}", _shown(details["input"]))


_MESSAGES: Final[Mapping[str, _Reader]] = {
    **dict.fromkeys(_TYPE_WORDS, _type),
    "enum": _word,
    "extra_forbidden": _unknown,
    "greater_than": _bound("more than", "gt"),
    "greater_than_equal": _bound("at least", "ge"),
    "less_than_equal": _bound("at most", "le"),
    "missing": _missing,
    "string_pattern_mismatch": _pattern,
    "string_too_long": _length("at most", "max_length"),
    "string_too_short": _length("at least", "min_length"),
    "too_long": _length("at most", "max_length"),
    "too_short": _length("at least", "min_length"),
}


@cache
def _schema() -> dict[str, Any]:
    return Platform.model_json_schema()


def _schema_at(location: Sequence[str | int]) -> dict[str, Any]:
    """Return the part of the JSON schema at a location of the stack, or an empty schema."""
    whole = _schema()
    here: dict[str, Any] = whole
    for part in location:
        here = _resolved(here, whole)
        here = here.get("items", {}) if isinstance(part, int) else _member(here, part)
    return _resolved(here, whole)


def _member(schema: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the schema of a field, or of the values of a mapping with arbitrary keys."""
    by_pattern: dict[str, Any] = schema.get("patternProperties", {})
    named: dict[str, Any] | None = schema.get("properties", {}).get(name)
    any_name: dict[str, Any] | bool = schema.get("additionalProperties", False)
    others = [*by_pattern.values(), *([any_name] if isinstance(any_name, dict) else [])]
    return named or (others[0] if others else {})


def _resolved(schema: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    """Resolve a reference and the non-null branch of an optional field; keep the description."""
    branches = [branch for branch in schema.get("anyOf", ()) if branch.get("type") != "null"]
    inner = branches[0] if branches else schema
    if "$ref" in inner:
        inner = whole["$defs"][str(inner["$ref"]).rsplit("/", 1)[1]]
    description = schema.get("description", inner.get("description", ""))
    return {**inner, "description": description}
