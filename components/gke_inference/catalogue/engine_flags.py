"""The flags of each engine's release, and the flags that the platform sets.

Lists are flags.json and owned_flags.yaml in the engines' folders, each with its release and source;
no other file in this repository repeats them.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any

from gke_inference.catalogue.data_file import read_table
from gke_inference.catalogue.engine_registries import hint
from gke_inference.catalogue.engine_tables import FOLDER, tables
from gke_inference.catalogue.input_error import InputError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET = re.compile(r"(^|_)(TOKEN|(API)?KEY|SECRET|CREDENTIALS)$|PASSWORD|PASSWD")
_NUMBERS = {
    "integer": (re.compile(r"-?\d+"), "a whole number"),
    "number": (re.compile(r"-?\d+(\.\d+)?([eE]-?\d+)?"), "a number"),
    "size": (re.compile(r"\d+(\.\d+)?[kKmMgGtT]?"), "a number such as 8192 or 8k"),
    "size-or-auto": (re.compile(r"auto|-1|\d+(\.\d+)?[kKmMgGtT]?"), "auto or a number"),
}
_SWITCHES = {"boolean": ("false", "true"), "switch": ("true",)}


@dataclass(frozen=True)
class Flag:
    """A flag of an engine."""

    name: str
    """Without the leading dashes."""
    type: str
    """`switch` takes no value, `boolean` has a negation, `list` takes several values."""
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    owner: str | None = None
    """What to use instead, or why users may not set it; None if they may."""

    def problem(self, value: str) -> InputError | None:
        """Return why a value is invalid for this flag, with the flag's name as path."""
        if self.type in _SWITCHES:
            words = _SWITCHES[self.type]
            return None if value in words else InputError(self.name, _one_of(words), value)
        if self.choices:
            given = value.split() if self.type == "list" else [value]
            wrong = next((each for each in given if each not in self.choices), None)
            if wrong is not None:
                rule = _one_of(self.choices)
                return InputError(self.name, rule, wrong, hint(wrong, self.choices))
        pattern, words = _NUMBERS.get(self.type, (None, ""))
        if pattern is not None and not pattern.fullmatch(value):
            return InputError(self.name, f"must be {words}", value)
        if self.type == "json" and not _is_json(value):
            return InputError(self.name, "must be JSON", value)
        return None

    def written(self, value: str) -> list[str]:
        """Return the command-line words that set this flag to a value."""
        if self.type in _SWITCHES:
            return [f"--{self.name}" if value == "true" else f"--no-{self.name}"]
        if self.type == "list":
            return [f"--{self.name}", *value.split()]
        return [f"--{self.name}={value}"]


def release(engine: str) -> str:
    """Return the engine release of the flag list, such as `0.32.0`."""
    return str(document(engine)["version"])


@cache
def flags(engine: str) -> Mapping[str, Flag]:
    """Return every flag of an engine by its name without the leading dashes.

    Raises:
        FileNotFoundError: There is no such engine.
    """
    owned: Mapping[str, str] = tables("owned_flags.yaml").get(engine, {})
    made: dict[str, Flag] = {}
    for dashed, entry in document(engine)["flags"].items():
        name = dashed.removeprefix("--")
        made[name] = Flag(
            aliases=tuple(entry.get("aliases", ())),
            choices=tuple(map(str, entry.get("choices", ()))),
            name=name,
            owner=owned.get(name),
            type=entry["type"],
        )
    return made


def flag_problem(engine: str, title: str, name: str, value: str) -> InputError | None:
    """Return why a user must not set an engine flag, with the flag's name as path.

    Args:
        engine: Engine name, such as `vllm`.
        title: The engine's own name.
        name: The flag, without the leading dashes.
        value: Given value.
    """
    known = flags(engine)
    flag = known.get(name)
    if flag is None:
        hint = _near(name, known)
        note = f"; did you mean {hint!r}?" if hint else ""
        return InputError(name, f"must be a flag of {title} {release(engine)}", name, note)
    if flag.owner is not None:
        return InputError(name, f"must not be set: the platform owns it ({flag.owner})", value)
    return flag.problem(value)


def release_problem(
    engine: str, title: str, release: str, name: str, value: str
) -> InputError | None:
    """Return why another release than that of the list refuses a flag, with its name as path.

    Args:
        engine: Engine name, such as `vllm`.
        title: The engine's own name.
        release: Release of the engine, such as `0.29.0`.
        name: A flag of the list, without the leading dashes.
        value: Given value.
    """
    other: Mapping[str, Any] = document(engine).get("other_releases", {}).get(release, {})
    dashed = f"--{name}"
    if dashed in other.get("lacks", ()):
        return InputError(name, f"must be a flag of {title} {release}", name)
    choices = tuple(other.get("choices", {}).get(dashed, ()))
    if choices and value not in choices:
        rule = f"{_one_of(choices)} with {title} {release}"
        return InputError(name, rule, value, hint(value, choices))
    return None


def variable_problem(name: str, value: str) -> InputError | None:
    """Return why a user must not set an engine variable, with its name as path."""
    if not _NAME.fullmatch(name):
        return InputError(name, "must be letters, digits and underscores", name)
    for pattern, owner in _owned_variables().items():
        is_prefix = pattern.endswith("*") and name.startswith(pattern[:-1])
        if is_prefix or name == pattern:
            return InputError(name, f"must not be set: the platform owns it ({owner})", value)
    return None


def is_secret(name: str) -> bool:
    """Return whether a variable of this name usually has a secret."""
    return _SECRET.search(name.upper()) is not None


def _near(name: str, known: Mapping[str, Flag]) -> str | None:
    plain = name.lstrip("-").replace("_", "-").partition("=")[0]
    for candidate in (plain, plain.removeprefix("no-")):
        if candidate in known:
            return candidate
    for flag in known.values():
        if plain in {alias.lstrip("-") for alias in flag.aliases}:
            return flag.name
    found = get_close_matches(plain, sorted(known), n=1, cutoff=0.6)
    return found[0] if found else None


def _one_of(words: tuple[str, ...]) -> str:
    return f"must be {'one of ' if len(words) > 1 else ''}{', '.join(words)}"


def _is_json(value: str) -> bool:
    try:
        json.loads(value)
    except ValueError:
        return False
    return True


@cache
def document(engine: str) -> dict[str, Any]:
    """Return the flag list of an engine: release, source, date and flags by name."""
    return json.loads((FOLDER / engine / "flags.json").read_text(encoding="utf-8"))


@cache
def _owned_variables() -> dict[str, str]:
    return read_table(FOLDER / "owned_variables.yaml")
