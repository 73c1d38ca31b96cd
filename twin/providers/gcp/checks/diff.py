"""Comparison of desired and current state, including what replaces the resource.

The rules (`common_rules` of the data): an omitted property is no difference if the provider
computes it. A key that a given map no longer has is a difference, even in a computed map.
`force_new` on a block applies when the block is added or removed; within the block, the inner
fields decide. On a list of plain values, it applies to the elements.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from twin.providers.gcp.checks.custom_diff import extra_replacements, made_anew
from twin.providers.gcp.checks.planned_values import as_planned
from twin.providers.gcp.checks.suppress import is_kept, is_of_the_server, is_same
from twin.providers.gcp.schema import Field, Resource
from twin.wire.property_values import Json, as_list, as_object, is_unknown

Kind = Literal["add", "delete", "update"]
_PLAN_ONLY = {"effectiveLabels", "pulumiLabels", "effectiveAnnotations"}


@dataclass(frozen=True)
class Change:
    """One property that differs."""

    path: str
    """Path in Pulumi names, such as `nodeConfig.taints[0].effect`."""
    kind: Kind
    replaces: bool


def changes(known: Resource, old: Json, new: Json, ignored: tuple[str, ...] = ()) -> list[Change]:
    """Return the differences between a resource's outputs and new inputs.

    Args:
        known: the resource type.
        old: current outputs of the resource.
        new: checked inputs; values can be unknown.
        ignored: paths under `ignore_changes`.
    """
    new = as_planned(known, old, new)
    found = list(_object("", known.root, old, new))
    found += [Change(path, "update", replaces=True) for path in made_anew(known, old, new)]
    found = [item for item in found if not _is_ignored(item.path, ignored)]
    if known.no_update:
        return [Change(item.path, item.kind, replaces=True) for item in found]
    forced = extra_replacements(known, old, new)
    return [
        Change(item.path, item.kind, item.replaces or any(_below(item.path, at) for at in forced))
        for item in found
    ]


def has_explicit_name(known: Resource, logical_name: str, inputs: Json) -> bool:
    """Return whether the user chose the name, so that old and new cannot exist at once."""
    if known.autoname is None:
        return False
    name = inputs.get(known.autoname.field)
    if not isinstance(name, str):
        return False
    return known.autoname.pattern(logical_name).fullmatch(name) is None


def _below(path: str, top: str) -> bool:
    return path == top or path.startswith((f"{top}.", f"{top}["))


def _is_ignored(path: str, ignored: tuple[str, ...]) -> bool:
    plain = path.replace("[", ".").replace("]", "")
    for pattern in ignored:
        wanted = pattern.replace("[", ".").replace("]", "").replace('"', "")
        parts, have = wanted.split("."), plain.split(".")
        if len(have) >= len(parts) and all(
            want in ("*", got) for want, got in zip(parts, have, strict=False)
        ):
            return True
    return False


def _object(where: str, field: Field, old: Json, new: Json) -> Iterator[Change]:
    for key, child in field.children.items():
        if child.is_output_only or (not where and key in _PLAN_ONLY):
            continue
        path = f"{where}.{key}" if where else key
        yield from _value(path, child, old.get(key), new.get(key))


def _value(where: str, field: Field, old: Any, new: Any) -> Iterator[Change]:
    if is_unknown(new):
        yield Change(where, "add" if _is_zero(old) else "update", field.force_new)
    elif is_kept(field, old, new):
        return
    elif new is None:
        yield from _left_out(where, field, old)
    elif field.kind == "object":
        yield from _block(where, field, as_object(old), as_object(new) or {})
    elif field.kind in ("list", "set"):
        yield from _list(where, field, as_list(old) or [], as_list(new) or [])
    elif field.kind == "map":
        yield from _map(where, field, as_object(old) or {}, as_object(new) or {})
    elif old is None:
        if not _is_zero(new) and not is_same(field, "", new):
            yield Change(where, "add", field.force_new)
    elif not is_same(field, old, new):
        yield Change(where, "update", field.force_new)


def _left_out(where: str, field: Field, old: Any) -> Iterator[Change]:
    if field.computed or old is None or (field.kind != "object" and _is_zero(old)):
        return
    if field.default is not None and is_same(field, old, field.default):
        return
    if field.kind == "string" and is_same(field, old, ""):
        return
    yield Change(where, "delete", field.force_new or _has_forced_value(field, old))


def _has_forced_value(field: Field, value: Any) -> bool:
    """Return whether removing a block removes an immutable value."""
    items, mapping = as_list(value), as_object(value)
    if field.kind in ("list", "set") and items is not None and field.items is not None:
        return any(_has_forced_value(field.items, item) for item in items)
    if field.kind != "object" or mapping is None:
        return field.force_new and not _is_zero(value)
    return any(
        _has_forced_value(child, mapping.get(key))
        for key, child in field.children.items()
        if not child.computed and not _is_zero(mapping.get(key))
    )


def _block(where: str, field: Field, old: Json | None, new: Json) -> Iterator[Change]:
    if old is None:
        inner = list(_object(where, field, {}, new))
        if field.force_new or not inner:
            yield Change(where, "add", field.force_new)
        yield from inner
        return
    yield from _object(where, field, old, new)


def _list(where: str, field: Field, old: list[Any], new: list[Any]) -> Iterator[Change]:
    element = field.items or field
    if old and not new:
        is_forced = field.force_new or any(_has_forced_value(element, item) for item in old)
        yield Change(where, "delete", is_forced)
        return
    if field.kind == "set":
        old, new = _paired(element, old, new)
    for number in range(max(len(old), len(new))):
        path = f"{where}[{number}]"
        if number >= len(old):
            yield Change(path, "add", field.force_new or _has_forced_value(element, new[number]))
        elif number >= len(new):
            yield Change(path, "delete", field.force_new or _has_forced_value(element, old[number]))
        else:
            yield from _value(path, element, old[number], new[number])


def _paired(element: Field, old: list[Any], new: list[Any]) -> tuple[list[Any], list[Any]]:
    """Move the common elements of two sets to the front of both."""
    rest, same_old, same_new, other = list(old), list[Any](), list[Any](), list[Any]()
    for item in new:
        match = next((o for o in rest if not list(_value("", element, o, item))), None)
        if match is None:
            other.append(item)
        else:
            rest.remove(match)
            same_old.append(match)
            same_new.append(item)
    rest.sort(key=_order)
    return same_old + rest, same_new + sorted(other, key=_order)


def _order(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _map(where: str, field: Field, old: Json, new: Json) -> Iterator[Change]:
    element = field.items or field
    for key in sorted({*old, *new}):
        path = f"{where}.{key}" if key.isidentifier() else f'{where}["{key}"]'
        if key not in new:
            if not is_of_the_server(field, key):
                yield Change(path, "delete", field.force_new)
        elif key not in old:
            yield Change(path, "add", field.force_new)
        elif is_unknown(new[key]) or not is_same(element, old[key], new[key]):
            yield Change(path, "update", field.force_new)


def _is_zero(value: Any) -> bool:
    """Return whether a value is the default of an unset property."""
    return value is None or value == "" or value is False or value == 0 or value in ([], {})
