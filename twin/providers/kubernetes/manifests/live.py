"""Live objects in the shape of the inputs, so that drift is visible but defaults are not."""

import base64
import binascii
from typing import Any, cast

from twin.providers.kubernetes.manifests import quantities

# Key fields of list items in the Kubernetes API, in the order in which they are tried.
_LIST_KEYS: tuple[tuple[str, ...], ...] = (
    ("name",),
    ("mountPath",),
    ("devicePath",),
    ("containerPort", "protocol"),
    ("port", "protocol"),
    ("containerPort",),
    ("port",),
    ("topologyKey",),
    ("key", "effect"),
    ("key",),
    ("type",),
    ("ip",),
)


def shaped(live: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a live object that the inputs set, with the live values.

    Fields that the object lost are omitted, and so are items that others added to a keyed list
    (such as an injected environment variable). A quantity that is only written differently keeps
    the format of the inputs.
    """
    result = _mapping(live, inputs, ())
    if inputs.get("kind") == "Secret" and isinstance(inputs.get("stringData"), dict):
        result["stringData"] = _decoded(live.get("data") or {}, inputs["stringData"])
    if "namespace" in (inputs.get("metadata") or {}) and "namespace" not in live["metadata"]:
        result["metadata"]["namespace"] = inputs["metadata"]["namespace"]  # cluster-scoped
    return result


def _mapping(live: dict[str, Any], wanted: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in wanted.items():
        if key in live:
            result[key] = _value(live[key], value, (*path, key))
        elif value in (None, {}, [], "", False, 0):
            result[key] = value  # the server leaves empty values out
    return result


def _value(live: Any, wanted: Any, path: tuple[str, ...]) -> Any:
    if isinstance(live, dict) and isinstance(wanted, dict):
        return _mapping(cast(dict[str, Any], live), cast(dict[str, Any], wanted), path)
    if isinstance(live, list) and isinstance(wanted, list):
        return _items(cast(list[Any], live), cast(list[Any], wanted), path)
    return cast(Any, wanted if quantities.same(live, wanted) else live)


def _items(live: list[Any], wanted: list[Any], path: tuple[str, ...]) -> list[Any]:
    if path == ("metadata", "finalizers"):
        return [item for item in wanted if item in live]  # a set that controllers share
    names = _key_of(wanted, live)
    if names is not None:
        by_key = {tuple(item.get(name) for name in names): item for item in live}
        found = [(by_key.get(tuple(item.get(name) for name in names)), item) for item in wanted]
        return [_value(there, item, path) for there, item in found if there is not None]
    return [
        _value(item, wanted[index], path) if index < len(wanted) else item
        for index, item in enumerate(live)
    ]


def _key_of(wanted: list[Any], live: list[Any]) -> tuple[str, ...] | None:
    """Return the key fields of the items of both lists, or None if there are none."""
    both: list[Any] = [*wanted, *live]
    if not wanted or not all(isinstance(item, dict) for item in both):
        return None
    for names in _LIST_KEYS:
        if all(all(name in item for name in names) for item in both):
            keys = [
                [repr([item[name] for name in names]) for item in side] for side in (wanted, live)
            ]
            if all(len(set(side)) == len(side) for side in keys):
                return names
    return None


def _decoded(data: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the `stringData` that corresponds to the live `data`."""
    result: dict[str, Any] = {}
    for key in wanted:
        if key in data:
            try:
                result[key] = base64.b64decode(data[key]).decode()
            except (binascii.Error, UnicodeDecodeError):
                result[key] = data[key]
    return result
