"""Mutations of the shipped stacks: each is one to three edits that its seed decides.

An edit follows the schema of a stack, so that most mutations are nearly right: a number at or
beyond the end of its range, another word, a setting of another stack, one that is missing.
"""

import copy
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from infra.reading.load import platform_of
from infra.stack import Platform
from tests.shipped_stacks import FILES

Path_ = tuple[str | int, ...]

_OTHER_TYPES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1.5,
    1e308,
    "",
    " ",
    "0x10",
    [],
    {},
    [[]],
)
_TEXTS = (
    "A",
    "a" * 64,
    "a b",
    "-a",
    "a-",
    "a_b",
    "a.b",
    "a/b",
    "a@b",
    "${a}",
    "$(A)",
    "x\ny",
    "é",
    "gs://",
    "gs://a/b@",
    "projects/p/secrets/s",
    "1" * 20,
    "10.0.0.0/33",
    "default",
)


@dataclass(frozen=True)
class Place:
    """A value of a stack, with its schema."""

    path: Path_
    schema: Mapping[str, Any]
    value: Any
    kind: str | None
    """Title of the class that a mapping of fields is; None for others."""


@dataclass(frozen=True)
class Mutation:
    """A changed stack."""

    file: Path
    document: dict[str, Any]
    edits: tuple[str, ...]
    """What was changed, for the message of a failed test."""


@cache
def _schema() -> dict[str, Any]:
    return Platform.model_json_schema()


@cache
def _documents() -> tuple[tuple[Path, dict[str, Any]], ...]:
    return tuple((file, platform_of(file)) for file in FILES)


def _resolved(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    branches = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    inner = branches[0] if branches else schema
    while "$ref" in inner:
        inner = _schema()["$defs"][inner["$ref"].rsplit("/", 1)[1]]
    return inner


def places(value: Any, schema: Mapping[str, Any], path: Path_ = ()) -> Iterator[Place]:
    """Yield every value of a stack, the whole first."""
    here = _resolved(schema)
    fields: dict[str, Any] = here.get("properties", {})
    yield Place(path, here, value, here.get("title") if fields else None)
    if isinstance(value, dict):
        others = [*here.get("patternProperties", {}).values(), here.get("additionalProperties")]
        other = next((each for each in others if isinstance(each, dict)), {})
        for name, each in value.items():
            yield from places(each, fields.get(name, other), (*path, name))
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from places(each, here.get("items", {}), (*path, at))


@cache
def _donors() -> dict[tuple[str, str], list[Any]]:
    """Return the values of each field in the shipped stacks, by class and name."""
    found: dict[tuple[str, str], list[Any]] = {}
    for _, document in _documents():
        for place in places(document, _schema()):
            if place.kind is not None and isinstance(place.value, dict):
                for name, each in place.value.items():
                    values = found.setdefault((place.kind, name), [])
                    if each not in values:
                        values.append(each)
    return found


def example(schema: Mapping[str, Any], dice: random.Random) -> Any:
    """Return a value that a schema takes, as far as a schema tells."""
    here = _resolved(schema)
    if "const" in here:
        return here["const"]
    if "enum" in here:
        return dice.choice(here["enum"])
    match here.get("type"):
        case "boolean":
            return dice.random() < 0.5
        case "integer" | "number":
            return _number(here, dice)
        case "array":
            count = dice.randint(here.get("minItems", 0), max(here.get("minItems", 0), 2))
            return [example(here.get("items", {}), dice) for _ in range(count)]
        case "object" if here.get("properties"):
            wanted = here.get("required", [])
            return {
                name: example(each, dice)
                for name, each in here["properties"].items()
                if name in wanted or dice.random() < 0.3
            }
        case "object":
            return {}
        case _:
            return dice.choice(_TEXTS)


def _number(schema: Mapping[str, Any], dice: random.Random) -> float:
    least = schema.get("minimum", schema.get("exclusiveMinimum", 0))
    most = schema.get("maximum", schema.get("exclusiveMaximum", least + 10))
    return dice.choice((least, most, least + 1, most - 1, (least + most) // 2))


def _set(document: Any, path: Path_, value: Any) -> None:
    for part in path[:-1]:
        document = document[part]
    document[path[-1]] = value


def _edit(document: dict[str, Any], dice: random.Random) -> str:
    """Change a document in one place; return what was changed."""
    every = list(places(document, _schema()))
    place = dice.choice(every[1:])
    *way, last = place.path
    parent: Any = document
    for part in way:
        parent = parent[part]
    where = ".".join(map(str, place.path))
    what = dice.random()
    if what < 0.12:
        del parent[last]
        return f"remove {where}"
    if what < 0.22:
        value = dice.choice(_OTHER_TYPES)
    elif what < 0.55:
        owner = dice.choice(
            [each for each in every if each.kind is not None and isinstance(each.value, dict)]
        )
        name = dice.choice(list(owner.schema["properties"]))
        known = _donors().get((str(owner.kind), name), [])
        is_known = bool(known) and dice.random() < 0.6
        value = dice.choice(known) if is_known else example(owner.schema["properties"][name], dice)
        owner.value[name] = copy.deepcopy(value)
        return f"set {'.'.join(map(str, (*owner.path, name)))} to {json.dumps(value)}"
    elif what < 0.62 and isinstance(last, str):
        other = dice.choice((last[:-1], last + "s", last.upper(), last.replace("_", "-"), "a" * 70))
        parent[other] = parent.pop(last)
        return f"rename {where} to {other}"
    elif isinstance(place.value, list):
        kept: list[Any] = place.value
        value = dice.choice((kept * 2, kept[::-1], [], kept[:1]))
    elif isinstance(place.value, bool):
        value = not place.value
    elif isinstance(place.value, int | float):
        least, most = place.schema.get("minimum", 0), place.schema.get("maximum", place.value * 2)
        value = dice.choice((least, most, least - 1, most + 1, place.value + 1, place.value * 1000))
    elif isinstance(place.value, str) and "enum" in place.schema:
        value = dice.choice([*place.schema["enum"], place.value[1:]])
    elif isinstance(place.value, str):
        value = dice.choice((*_TEXTS, place.value * 2, place.value[:-1], f" {place.value}"))
    else:
        value = example(place.schema, dice)
    _set(document, place.path, value)
    return f"set {where} to {json.dumps(value)}"


def mutation(seed: int) -> Mutation:
    """Return the mutation of a seed."""
    dice = random.Random(seed)
    file, original = dice.choice(_documents())
    document = copy.deepcopy(original)
    edits = tuple(_edit(document, dice) for _ in range(dice.choice((1, 1, 2, 3))))
    return Mutation(file, document, edits)
