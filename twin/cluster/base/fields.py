"""Reads optional parts of JSON objects; an explicit null counts as absent."""

from twin.wire.kube import JsonObject


def part(source: JsonObject, *keys: str) -> JsonObject:
    """Return the object under some keys, empty where one is absent."""
    for key in keys:
        source = source.get(key) or {}
    return source


def parts(source: JsonObject, key: str) -> list[JsonObject]:
    """Return the list of objects under a key, empty where it is absent."""
    return source.get(key) or []


def text_map(source: JsonObject, key: str) -> dict[str, str]:
    """Return a copy of the map of strings under a key, empty where it is absent."""
    return dict(source.get(key) or {})
