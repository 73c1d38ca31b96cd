"""Property values from the engine, and their errors."""

from dataclasses import dataclass
from typing import Any, cast

Json = dict[str, Any]

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""The engine's marker of a value that is unknown in a preview (sdk/go/common/resource/plugin)."""
SIGNATURE_KEY = "4dabf18193072939515e22adb298388d"
"""The key under which the engine marks secrets, assets, archives and outputs in a property map."""
SECRET_SIGNATURE = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - a marker of the protocol
ASSET_SIGNATURE = "c44067f5952c0a294b673a41bacd8c17"
"""Signature of an asset in a property map (sdk/go/common/resource/asset)."""
ARCHIVE_SIGNATURE = "0def7320c3a5731c473e5ecbe6d01bc7"
"""Signature of an archive in a property map."""


@dataclass(frozen=True)
class Failure:
    """An error in the inputs of a resource."""

    path: str
    """The property in Pulumi names, such as `nodeConfig.taints[0].effect`."""
    reason: str
    """Rule and value, such as `must be one of …, got 'X'`."""

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.path else self.reason


class CloudError(Exception):
    """An error in Google's wording, such as `Error 409: …, alreadyExists`."""

    def __init__(self, status: int, message: str, reason: str) -> None:
        super().__init__(f"googleapi: Error {status}: {message}, {reason}")
        self.status = status
        self.message = message
        self.reason = reason


def is_unknown(value: Any) -> bool:
    """Return whether a value is unknown."""
    return isinstance(value, str) and value == UNKNOWN


def strip_secrets(value: Any) -> Any:
    """Return a property value without secret wrappers, at any depth."""
    if isinstance(value, dict):
        mapping = cast(dict[str, Any], value)
        if mapping.get(SIGNATURE_KEY) == SECRET_SIGNATURE:
            return strip_secrets(mapping["value"])
        return {key: strip_secrets(item) for key, item in mapping.items()}
    if isinstance(value, list):
        items = cast(list[Any], value)
        return [strip_secrets(item) for item in items]
    return value


def has_unknown(value: Any) -> bool:
    """Return whether a property value contains an unknown value, at any depth."""
    if isinstance(value, dict):
        mapping = cast(dict[str, Any], value)
        return any(has_unknown(item) for item in mapping.values())
    if isinstance(value, list):
        items = cast(list[Any], value)
        return any(has_unknown(item) for item in items)
    return value == UNKNOWN


def as_object(value: Any) -> Json | None:
    """Return a value if it is a JSON object, or None."""
    if isinstance(value, dict):
        return cast(Json, value)
    return None


def as_list(value: Any) -> list[Any] | None:
    """Return a value if it is a list, or None."""
    if isinstance(value, list):
        return cast(list[Any], value)
    return None


def asset_signature(value: Any) -> str | None:
    """Return `asset` or `archive` for such a value, or None."""
    mapping = as_object(value)
    if mapping is None:
        return None
    names = {ASSET_SIGNATURE: "asset", ARCHIVE_SIGNATURE: "archive"}
    return names.get(mapping.get(SIGNATURE_KEY, ""))


def get_path(value: Any, path: str) -> Any:
    """Return the value at a camelCase path such as `nodeConfig.spot`, or None."""
    for part in path.split("."):
        mapping = as_object(value)
        if mapping is None:
            return None
        value = mapping.get(part)
    return value


def show(value: Any) -> str:
    """Return a value in the format of messages."""
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return "null" if value is None else str(value)


def last_segment(reference: str) -> str:
    """Return the name in a link, ID or name: `projects/p/global/networks/n` → `n`."""
    return reference.rstrip("/").rpartition("/")[2]
