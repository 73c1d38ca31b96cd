"""Access to optional fields of JSON objects; an explicit null counts as absent."""

from twin.wire.kube import JsonObject


def part(source: JsonObject, *keys: str) -> JsonObject:
    """Return the object at a path of keys, or an empty one if a key is absent."""
    for key in keys:
        source = source.get(key) or {}
    return source


def parts(source: JsonObject, key: str) -> list[JsonObject]:
    """Return the list of objects under a key, or an empty list if it is absent."""
    return source.get(key) or []


def text_map(source: JsonObject, key: str) -> dict[str, str]:
    """Return a copy of the string map under a key, or an empty map if it is absent."""
    return dict(source.get(key) or {})
