"""Field ownership of live objects from `managedFields`, and its effect on updates."""

import copy
import json
from typing import Any, cast

from twin.providers.kubernetes.manifests import fields
from twin.providers.kubernetes.manifests.fields import MISSING, Path


def owners(live: dict[str, Any], path: Path) -> set[str]:
    """Return the field managers that own the field at a path, or any field below it."""
    found: set[str] = set()
    for entry in live.get("metadata", {}).get("managedFields", []):
        if _owns(entry.get("fieldsV1") or {}, live, path):
            found.add(str(entry.get("manager", "")))
    return found


def _owns(tree: dict[str, Any], value: Any, path: Path) -> bool:
    """Follow a path through a fieldsV1 tree; list items are found by their content."""
    for step in path:
        if isinstance(step, int):
            items = cast(list[Any], value) if isinstance(value, list) else []
            item: Any = items[step] if step < len(items) else MISSING
            key = next((k for k in tree if _names_item(k, item)), None)
            value = item
        else:
            key = f"f:{step}" if f"f:{step}" in tree else None
            value = fields.get(value, (step,))
        if key is None:
            return False
        tree = tree[key] or {}
    return True


def _names_item(key: str, item: Any) -> bool:
    if key.startswith("k:") and isinstance(item, dict):
        wanted: dict[str, Any] = json.loads(key[2:])
        mapping = cast(dict[str, Any], item)
        return all(mapping.get(name) == value for name, value in wanted.items())
    return key.startswith("v:") and item is not MISSING and json.loads(key[2:]) == item


def leave_ignored(
    obj: dict[str, Any], live: dict[str, Any], ignored: list[Path], manager: str
) -> dict[str, Any]:
    """Return the object to apply if some paths are ignored.

    A field that only others own (replicas under an autoscaler) is omitted, so that the update
    neither conflicts nor takes it over. A field that this manager or none owns is sent with its
    live value, because omitting it would unset it.

    Args:
        obj: desired object, which is not changed.
        live: live object.
        ignored: ignored paths, in which `*` matches every item.
        manager: field manager of the provider.
    """
    result = copy.deepcopy(obj)
    for pattern in ignored:
        for path in _expand(pattern, live, ()):
            who = owners(live, path)
            if who and manager not in who:
                fields.remove(result, path)
            elif fields.get(result, path[:-1]) is not MISSING:
                fields.put(result, path, copy.deepcopy(fields.get(live, path)))
    return result


def _expand(pattern: Path, value: Any, done: Path) -> list[Path]:
    """Return the paths of a live object that match a pattern."""
    if not pattern:
        return [done]
    step, rest = pattern[0], pattern[1:]
    if step == "*":
        steps: list[Any] = []
        if isinstance(value, list):
            steps = list(range(len(cast(list[Any], value))))
        elif isinstance(value, dict):
            steps = list(cast(dict[Any, Any], value))
    else:
        steps = [step]
    return [
        path
        for each in steps
        if (there := fields.get(value, (each,))) is not MISSING
        for path in _expand(rest, there, (*done, each))
    ]
