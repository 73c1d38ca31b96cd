"""Problems of settings as user-facing messages: field, rule and value.

The validator reports errors with its own type names. This module turns each into one sentence, and
suggests the right word for a misspelled field or value.
"""

import difflib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gke_inference.settings.fields import PATTERN_WORDS

from .engines import retired
from .input_error import Bare, InputError, UnknownName, shown

Location = tuple[str | int, ...]
"""Names of fields and keys, and positions in lists, from the root."""

_KEY: Final = "[key]"
_LONGEST_VALUE: Final = 60
_TYPE_WORDS: Final = {
    "bool_type": "true or false",
    "dict_type": "a mapping of names to values",
    "float_type": "a number",
    "int_from_float": "a whole number",
    "int_type": "a whole number",
    "list_type": "a list",
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
RULE: Final = "rule"
"""Type of a custom validator's error, whose message is the rule that the value breaks. Its context
may have a `hint`, the text after the value."""


def join(*parts: str | int) -> str:
    """Return the path of a field: `join("capacity", "a", "rungs", 0)` is `capacity.a.rungs[0]`.

    A first part that is empty is left out, for settings at the root.
    """
    path = ""
    for part in parts:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            path += f".{part}" if path else part
    return path


_SYNONYMS: Final = {
    "chat": "generate",
    "dws": "flex-start",
    "embedding": "embed",
    "gpus": "count",
    "ironwood": "tpu7x",
    "max_model_len": "context",
    "max_num_seqs": "max_batch",
    "preemptible": "spot",
    "private": "internal",
    "public": "external",
    "text": "generate",
    "tls": "certificate",
    "tpu-v7": "tpu7x",
    "trillium": "tpu-v6e",
}
"""Words of vLLM, Kubernetes and Google Cloud for words of a stack."""
_ELSEWHERE: Final = {
    "max_model_len": "'context' of the model",
    "max_num_seqs": "'max_batch' in 'settings' of the model",
}
"""Fields for words of vLLM in other places of a stack."""
_MOST_LISTED: Final = 24
"""Words that an error lists beside its suggestion."""
_SERIES: Final = re.compile(r"(?<![a-z0-9])([a-z]{1,2})\d")
"""Letters that begin a model number, such as the `h` of `nvidia-h100-80gb`."""


def suggest(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` if a word resembles a known one, otherwise an empty string."""
    near = _meant(word, known)
    return f"; did you mean {near!r}?" if near else ""


def _meant(word: str, known: Iterable[str]) -> str | None:
    words = sorted(known)
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", word).lower()
    other = _SYNONYMS.get(plain)
    if other in words:
        return other
    return _near(plain, [each for each in words if not _is_other_series(plain, each)])


def _is_other_series(word: str, other: str) -> bool:
    """Return whether both name a series, and not the same: h300 is no misspelled b200."""
    mine, theirs = _SERIES.search(word), _SERIES.search(other)
    return mine is not None and theirs is not None and mine[1] != theirs[1]


def _near(word: str, words: Sequence[str]) -> str | None:
    if typo := difflib.get_close_matches(word, words, n=1, cutoff=0.9):
        return typo[0]
    longer = [other for other in words if len(word) > 2 and other.startswith(word)]
    part = [other for other in words if len(word) > 1 and word in re.split("[-_]", other)]
    inside = [other for other in words if other in re.split("[-_./]", word)]
    found = longer or part or inside or difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    if not found and len(word) > 3:  # a typo in the first part of a long name
        heads = {other[: len(word) + 1]: other for other in reversed(words)}
        found = [heads[each] for each in difflib.get_close_matches(word, heads, n=1, cutoff=0.8)]
    return found[0] if found else None


def one_of(path: str, value: str, known: Iterable[str]) -> UnknownName:
    """Return the error for a word that is not in a list, with the closest match."""
    words = list(known)
    if not words:
        return UnknownName(path, "must name one that exists, but there is none", value)
    near = suggest(value, words)
    return UnknownName(path, f"must be one of {_listed(words, near)}", value, near)


def _listed(words: Sequence[str], near: str) -> str:
    """Return the words, or how many there are if the closest one says more than a long list."""
    return f"{len(words)} names" if near and len(words) > _MOST_LISTED else ", ".join(words)


def repeated(path: str, values: Sequence[Hashable], what: str) -> Iterator[InputError]:
    """Yield an error for the values of a list that also stand before it, at the first of them.

    Args:
        path: The list.
        values: Its values.
        what: What a value is, such as `a zone`.
    """
    again = [at for at, value in enumerate(values) if value in values[:at]]
    if again:
        others = dict.fromkeys(values[at] for at in again)
        value = Bare(", ".join(shown(each) for each in others))
        yield InputError(join(path, again[0]), f"must not repeat {what}", value, " twice")


def unknown_field(path: str, rule: str, name: str, known: Sequence[str]) -> InputError:
    """Return the error for a field that does not exist, with the closest match or all fields."""
    elsewhere = f"; did you mean {_ELSEWHERE[name]}?" if name in _ELSEWHERE else ""
    hint = suggest(name, known) or elsewhere or "; the fields here are " + ", ".join(known)
    return InputError(path, rule, note=hint)


def range_of(schema: Mapping[str, Any]) -> str:
    """Return the range of a number as in messages: `1 to 20`, `at least 1`, `more than 0`.

    Args:
        schema: JSON schema of the number. Without a limit, the range is an empty text.
    """
    least, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    most, below = schema.get("maximum"), schema.get("exclusiveMaximum")
    if least is not None and most is not None:
        return f"{_number(least)} to {_number(most)}"
    low = f"at least {_number(least)}" if least is not None else ""
    low = f"more than {_number(above)}" if above is not None else low
    high = f"at most {_number(most)}" if most is not None else ""
    high = f"less than {_number(below)}" if below is not None else high
    return " and ".join(part for part in (low, high) if part)


def _number(limit: float) -> str:
    return str(int(limit)) if float(limit).is_integer() else str(limit)


def shown_value(value: Any) -> str:
    """Return a value for a message, shortened: text as itself, other values in YAML notation."""
    if isinstance(value, str):
        return _short(value)
    return Bare(_short(json.dumps(value, default=str)))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."


class Document:
    """Settings that a user wrote, with the JSON schema that explains what the validator found."""

    def __init__(
        self,
        schema: Callable[[], dict[str, Any]],
        unknown: str = "is not a field",
        spell: Callable[[str], str] = str,
    ) -> None:
        """Create the document.

        Args:
            schema: Returns the JSON schema, which is made on the first error.
            unknown: Rule for the error of a field that does not exist.
            spell: Spells the name of a field as the user wrote it.
        """
        self._make = schema
        self._made: dict[str, Any] | None = None
        self._unknown_rule = unknown
        self._spell = spell

    def problems_of(self, error: ValidationError, where: Location = ()) -> list[InputError]:
        """Return the problems that the validator found, in the order of the settings.

        Args:
            error: Errors of the settings.
            where: Location of the validated part, as the user spells it.
        """
        every = error.errors(include_url=False)
        meant = self._misspelled(every)
        problems = [
            self._problem(details, where, meant)
            for details in every
            if not _is_consequence(details) and details["loc"] not in meant.values()
        ]
        return list(dict.fromkeys(problems))  # each branch of a scalar yields the same problem

    def _misspelled(self, every: Sequence[ErrorDetails]) -> dict[Location, Location]:
        """Return the required fields that unknown fields beside them seem to be, by the latter."""
        missing = defaultdict[Location, list[str]](list)
        for details in every:
            if details["type"] == "missing":
                *parent, name = details["loc"]
                missing[tuple(parent)].append(str(name))
        meant: dict[Location, Location] = {}
        for details in every:
            if details["type"] == "extra_forbidden":
                *parent, name = details["loc"]
                spelled = {self._spell(each): each for each in missing[tuple(parent)]}
                near = _meant(self._spell(str(name)), spelled)
                if near is not None:
                    meant[details["loc"]] = (*parent, spelled[near])
        return meant

    def _problem(
        self, details: ErrorDetails, where: Location, meant: Mapping[Location, Location]
    ) -> InputError:
        at = tuple(part for part in details["loc"] if part != _KEY)
        if _is_encrypted(details["input"]):
            shorter = at[:-1] if self._is_branch(at) else at
            return InputError(self._path(where, shorter), _ENCRYPTED_RULE)
        if self._is_branch(at):
            value = shown_value(details["input"])
            return InputError(self._path(where, at[:-1]), _SCALAR_RULE, value)
        path, schema = self._path(where, at), self._at(at)
        match details["type"]:
            case "extra_forbidden":
                return self._unknown(path, at, meant.get(details["loc"], ())[-1:])
            case "missing" if details["input"] == {} and len(self._required(at[:-1])) > 1:
                rule = f"must have {', '.join(self._required(at[:-1]))}"
                return InputError(self._path(where, at[:-1]), rule, Bare("{}"))
            case "missing":
                return _missing(path, schema)
            case "enum":
                return _word(path, at, schema, details["input"])
            case "literal_error":
                known = ", ".join(map(str, schema.get("enum", ())))
                return InputError(path, f"must be one of {known}", shown_value(details["input"]))
            case kind if kind in _TYPE_WORDS:
                return _type(path, _TYPE_WORDS[kind], details["input"])
            case _:
                return _other(path, schema, details)

    def _path(self, where: Location, at: Location) -> str:
        """Return the path of a location, each field spelled as the user does."""
        spelled = [
            self._spell(part) if isinstance(part, str) and self._is_field(at[:index]) else part
            for index, part in enumerate(at)
        ]
        return join(*where, *spelled)

    def _is_field(self, parent: Location) -> bool:
        """Return whether the names at a location are fields, not keys that users choose."""
        here = self._at(parent)
        return "properties" in here or not here.get("additionalProperties")

    def _is_branch(self, at: Location) -> bool:
        """Return whether a location ends with a type of a scalar, not with one of its fields."""
        if not at or at[-1] not in _SCALAR_BRANCHES:
            return False
        return self._at(at[:-1]).get("type") in _SCALAR_TYPES

    def _required(self, at: Location) -> list[str]:
        """Return the fields that a mapping must have, spelled as the user does."""
        return [self._spell(name) for name in self._at(at).get("required", ())]

    def _unknown(self, path: str, at: Location, meant: Location) -> InputError:
        here = self._at(at[:-1])
        known = [self._spell(str(name)) for name in meant or here.get("properties", {})]
        return unknown_field(path, self._unknown_rule, self._spell(str(at[-1])), known)

    @property
    def _schema(self) -> dict[str, Any]:
        if self._made is None:
            self._made = self._make()
        return self._made

    def _at(self, location: Location) -> dict[str, Any]:
        """Return the part of the JSON schema at a location, or an empty schema."""
        whole = self._schema
        here: dict[str, Any] = whole
        for part in location:
            here = _resolved(here, whole)
            here = here.get("items", {}) if isinstance(part, int) else _member(here, part)
        return _resolved(here, whole)


def _is_consequence(details: ErrorDetails) -> bool:
    """Return whether a list is too short only because some of its entries are invalid.

    The validator compares the number of valid entries with the limit.
    """
    if details["type"] != "too_short":
        return False
    return len(details["input"]) >= details.get("ctx", {})["min_length"]


def _is_encrypted(value: Any) -> bool:
    """Return whether a value is what `pulumi config set --path --secret` writes."""
    return isinstance(value, Mapping) and set(cast(Mapping[str, Any], value)) == {"secure"}


def _missing(path: str, schema: Mapping[str, Any]) -> InputError:
    meaning: str = " ".join(schema.get("description", "").split())
    sentence = re.split("; |[.] ", meaning)[0].rstrip(".")
    return InputError(path, f"is required: {sentence}" if sentence else "is required")


def _type(path: str, wanted: str, value: Any) -> InputError:
    hint = " (without the quotes)" if isinstance(value, str) and _is_scalar(value, wanted) else ""
    if wanted == "text" and isinstance(value, int | float):
        hint = " (put it in quotes)"
    return InputError(path, f"must be {wanted}", shown_value(value), hint)


def _is_scalar(text: str, wanted: str) -> bool:
    """Return whether a text without quotes would have the wanted type."""
    if wanted == _TYPE_WORDS["bool_type"]:
        return text in {"true", "false"}
    is_number = wanted in {_TYPE_WORDS["int_type"], _TYPE_WORDS["float_type"]}
    return is_number and text.removeprefix("-").replace(".", "", 1).isdigit()


def _word(path: str, at: Location, schema: Mapping[str, Any], value: Any) -> InputError:
    known = [str(word) for word in schema.get("enum", ())]
    if not isinstance(value, str):
        return InputError(path, f"must be one of {', '.join(known)}", shown_value(value))
    if at and at[-1] == "engine" and value in retired():
        return InputError(
            path, f"must be one of {', '.join(known)}", value, f": {retired()[value]}"
        )
    return one_of(path, value, known)


def _other(path: str, schema: Mapping[str, Any], details: ErrorDetails) -> InputError:
    """Return the problem of a value of the right type that breaks a rule."""
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    if kind == RULE:
        return InputError(path, details["msg"], shown_value(value), context.get("hint", ""))
    if kind == "string_pattern_mismatch":
        pattern = str(context["pattern"])
        wanted = PATTERN_WORDS.get(pattern, f"text that matches {pattern}")
        return InputError(path, f"must be {wanted}", shown_value(value))
    if kind in _LENGTHS:
        words, name = _LENGTHS[kind]
        return _length(path, words, context[name], value)
    if kind in _BOUNDS:
        words, name = _BOUNDS[kind]
        rule = range_of(schema) or f"{words} {_number(context[name])}"
        return InputError(path, f"must be {rule}", shown_value(value))
    return InputError(path, f"is not valid: {details['msg']}", shown_value(value))


def _length(path: str, words: str, limit: int, value: Any) -> InputError:
    if not isinstance(value, str):
        entries = "entry" if limit == 1 else "entries"
        return InputError(path, f"must have {words} {limit} {entries}", len(value))
    rule = f"must have {words} {limit} characters"
    return InputError(path, rule, shown_value(value), f" with {len(value)}")


_BOUNDS: Final = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}
_LENGTHS: Final = {
    "string_too_long": ("at most", "max_length"),
    "string_too_short": ("at least", "min_length"),
    "too_long": ("at most", "max_length"),
    "too_short": ("at least", "min_length"),
}


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
