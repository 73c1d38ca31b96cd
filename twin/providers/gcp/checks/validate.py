"""Validation of a resource's inputs against all known constraints of its type.

`python -m twin.providers.gcp.checks.validate FILE.json` checks a file of
`[{"type", "name", "inputs"}, …]`.
"""

import difflib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from twin.providers.gcp.checks import custom_rules, relations
from twin.providers.gcp.checks.validators import value_problems
from twin.providers.gcp.schema import Field, Resource, add_sdk_only, resource
from twin.wire.property_values import (
    Failure,
    Json,
    as_list,
    as_object,
    asset_signature,
    is_unknown,
    show,
    strip_secrets,
)

_IMPLICIT = {"__defaults"}
_TYPE_WORDS = {
    "string": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "an object",
    "list": "a list",
    "set": "a list",
    "map": "a map",
    "asset": "an asset or archive",
}


def validate_inputs(token: str, inputs: Json, old: Json | None = None) -> list[Failure]:
    """Return all errors in the inputs of a resource; empty if they are valid.

    Args:
        token: type token, such as `gcp:container/cluster:Cluster`.
        inputs: inputs in camelCase, as in a Pulumi program; values can be unknown or secret.
        old: previous inputs; empty for a new resource, None if they are not known.
    """
    known = resource(token)
    if known is None:
        return [Failure("", f"unknown resource type {token}")]
    plain: Json = strip_secrets(inputs)
    add_when_needed(known, plain)
    failures = list(_object("", known.root, plain, known))
    failures += relations.problems(known, plain)
    failures += custom_rules.problems(known, plain, old)
    return list(dict.fromkeys(failures))


def add_when_needed(known: Resource, inputs: Json) -> None:
    """Load a type's properties from the SDK if the inputs use a name that is not in the data."""
    if known.sdk_only and _uses_unknown_name(known.root, inputs):
        add_sdk_only(known.token)


def _uses_unknown_name(field: Field, value: Any) -> bool:
    items = as_list(value)
    if items is not None:
        return any(_uses_unknown_name(field.block, item) for item in items)
    mapping = as_object(value)
    if mapping is None or not field.children:
        return False
    return any(
        key not in field.children or _uses_unknown_name(field.children[key], item)
        for key, item in mapping.items()
    )


def _object(where: str, field: Field, value: Json, known: Resource) -> Iterator[Failure]:
    for key, item in value.items():
        path = f"{where}.{key}" if where else key
        child = field.children.get(key)
        if child is None:
            if key not in _IMPLICIT:
                yield Failure(path, _unknown_property(key, field))
        elif child.is_output_only:
            yield Failure(path, "is set by the provider only and cannot be given")
        elif item is not None:
            yield from _value(path, child, item, known)
    for key, child in field.children.items():
        if child.required and value.get(key) is None and not _filled_in(child, known):
            path = f"{where}.{key}" if where else key
            yield Failure(path, "is required")


def _filled_in(child: Field, known: Resource) -> bool:
    auto = known.autoname
    is_named = auto is not None and child.path.count(".") == 0 and child.name == auto.field
    return is_named or child.default is not None


def _unknown_property(key: str, field: Field) -> str:
    words = {re.sub(r"[_-]", "", name).lower(): name for name in field.children}
    near = difflib.get_close_matches(re.sub(r"[_-]", "", key).lower(), words, n=1, cutoff=0.7)
    if near:
        return f"is not a property of this resource; did you mean {words[near[0]]}?"
    return "is not a property of this resource"


def _value(where: str, field: Field, value: Any, known: Resource) -> Iterator[Failure]:
    if is_unknown(value) or field.kind == "any":
        return
    if not _has_type(field.kind, value):
        yield Failure(where, f"must be {_TYPE_WORDS[field.kind]}, got {show(value)}")
        return
    items, mapping = as_list(value), as_object(value)
    if items is not None:
        yield from _list(where, field, items, known)
    elif field.kind == "map" and mapping is not None:
        for key, item in mapping.items():
            if field.items is not None and item is not None:
                yield from _value(f"{where}.{key}", field.items, item, known)
    elif field.kind == "object" and mapping is not None:
        yield from _object(where, field, mapping, known)
    for problem in value_problems(field, value):
        yield Failure(where, problem)


def _list(where: str, field: Field, items: list[Any], known: Resource) -> Iterator[Failure]:
    if len(items) < field.min_items:
        yield Failure(where, f"must have {field.min_items} items or more, got {len(items)}")
    if field.max_items is not None and len(items) > field.max_items:
        yield Failure(where, f"must have {field.max_items} items or fewer, got {len(items)}")
    for number, item in enumerate(items):
        if field.items is not None:
            yield from _value(f"{where}[{number}]", field.items, item, known)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())


def _has_type(kind: str, value: Any) -> bool:
    is_bool = isinstance(value, bool)
    match kind:
        case "string":
            found = isinstance(value, str)
        case "bool":
            found = is_bool
        case "int":
            found = _is_whole(value) and not is_bool
        case "float":
            found = isinstance(value, int | float) and not is_bool
        case "list" | "set":
            found = isinstance(value, list)
        case "asset":
            found = asset_signature(value) is not None
        case _:
            found = isinstance(value, dict)
    return found


def main(arguments: list[str]) -> int:
    """Check a file of resources; print one line per failure, and return 1 if there are any."""
    content: list[Json] = json.loads(Path(arguments[0]).read_text())
    count = 0
    for entry in content:
        for failure in validate_inputs(entry["type"], entry["inputs"]):
            count += 1
            sys.stdout.write(f"{entry['type']} {entry.get('name', '')}: {failure}\n")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
