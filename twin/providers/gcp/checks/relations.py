"""Rules between properties: conflicts_with, exactly_one_of, at_least_one_of, required_with.

A given property counts whatever its value, even false. An unknown value cannot conflict, is allowed
by exactly_one_of, and satisfies at_least_one_of (helper/schema of the provider's SDK).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from twin.providers.gcp.schema import Field, Resource
from twin.wire.property_values import Failure, Json, as_list, as_object, is_unknown

_MISSING = object()


@dataclass(frozen=True)
class _Frame:
    """One enclosing block: its path in the data, the user's path, its fields and its value."""

    path: str
    where: str
    field: Field
    value: Json


def problems(known: Resource, inputs: Json) -> Iterator[Failure]:
    """Yield a failure for each broken rule between properties."""
    yield from _block((_Frame("", "", known.root, inputs),), inputs)


def _block(frames: tuple[_Frame, ...], value: Json) -> Iterator[Failure]:
    frame = frames[-1]
    for key, child in frame.field.children.items():
        item = value.get(key, None)
        given = _MISSING if item is None else item
        yield from _field(frames, child, given)
        for where, element in _elements(_join(frame.where, key), child, item):
            yield from _block((*frames, _Frame(child.path, where, child.block, element)), element)


def _elements(where: str, child: Field, item: Any) -> Iterator[tuple[str, Json]]:
    if not child.block.children:
        return
    items, mapping = as_list(item), as_object(item)
    if items is not None:
        for number, element in enumerate(items):
            found = as_object(element)
            if found is not None:
                yield f"{where}[{number}]", found
    elif mapping is not None:
        yield where, mapping


def _field(frames: tuple[_Frame, ...], child: Field, given: Any) -> Iterator[Failure]:
    where = _join(frames[-1].where, child.name)
    if child.exactly_one_of:
        found = [
            (_find(frames, path), _name(frames, path))
            for path in {*child.exactly_one_of, child.path}
        ]
        names = sorted({name for _, name in found})
        known = sorted({n for v, n in found if v is not _MISSING and not is_unknown(v)})
        unknown = any(is_unknown(value) for value, _ in found)
        if len(known) > 1:
            yield Failure(frames[-1].where or known[0], f"only one of {_list(known)} may be given")
        elif not known and not unknown:
            if len(names) == 1:
                yield Failure(names[0], "is required")
            else:
                yield Failure(frames[-1].where or names[0], f"one of {_list(names)} must be given")
    if child.at_least_one_of:
        wanted = [
            (_find(frames, path), _name(frames, path))
            for path in {*child.at_least_one_of, child.path}
        ]
        if all(value is _MISSING for value, _ in wanted):
            names = sorted({name for _, name in wanted})
            yield Failure(frames[-1].where or names[0], f"at least one of {_list(names)} is needed")
    if given is _MISSING or is_unknown(given):
        return
    for path in child.conflicts_with:
        other = _find(frames, path)
        if other is not _MISSING and not is_unknown(other) and path != child.path:
            yield Failure(where, f"cannot be given together with {_name(frames, path)}")
    for path in child.required_with:
        if _find(frames, path) is _MISSING:
            yield Failure(where, f"needs {_name(frames, path)} to be given too")


def _ancestor(frames: tuple[_Frame, ...], path: str) -> _Frame:
    return next(
        frame for frame in reversed(frames) if not frame.path or path.startswith(frame.path + ".")
    )


def _find(frames: tuple[_Frame, ...], path: str) -> Any:
    frame = _ancestor(frames, path)
    value: Any = frame.value
    field = frame.field
    for part in path.removeprefix(frame.path).lstrip(".").split("."):
        items = as_list(value)
        if items is not None:  # the rule speaks of the first element
            value = items[0] if items else None
        mapping = as_object(value)
        child = field.by_source_name.get(part)
        if is_unknown(value):
            return value
        if mapping is None or child is None or mapping.get(child.name) is None:
            return _MISSING
        value, field = mapping[child.name], child.block
    return value


def _name(frames: tuple[_Frame, ...], path: str) -> str:
    frame = _ancestor(frames, path)
    where, field = frame.where, frame.field
    for part in path.removeprefix(frame.path).lstrip(".").split("."):
        child = field.by_source_name.get(part)
        if child is None:
            return _join(where, part)
        where, field = _join(where, child.name), child.block
    return where


def _join(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _list(names: list[str]) -> str:
    return ", ".join(names[:-1]) + (f" and {names[-1]}" if len(names) > 1 else names[0])
