"""Types of a request's fields as serde reads them for TGI: `router/src/lib.rs` at v3.3.7.

serde does not coerce types: a number in quotes is a string.
"""

from collections.abc import Mapping
from typing import Any, cast

from simulator.server.bodies import asks
from simulator.server.bodies.errors import ApiError

_LARGEST = {"i32": 2**31 - 1, "u32": 2**32 - 1, "u64": 2**64 - 1, "usize": 2**64 - 1}
_LEAST = {"i32": -(2**31)}
_PLURAL = "a sequence"
_SHARED = {
    "frequency_penalty": "f32",
    "max_tokens": "u32",
    "model": "a string",
    "seed": "u64",
    "stop": _PLURAL,
    "stream": "a boolean",
    "temperature": "f32",
    "top_p": "f32",
}
CHAT: Mapping[str, str] = _SHARED | {
    "logit_bias": _PLURAL,
    "logprobs": "a boolean",
    "max_completion_tokens": "u32",
    "messages": _PLURAL,
    "n": "u32",
    "presence_penalty": "f32",
    "stream_options": "struct StreamOptions",
    "tools": _PLURAL,
    "top_logprobs": "u32",
}
"""Fields of `ChatRequest` and the types that serde expects."""
COMPLETION: Mapping[str, str] = _SHARED | {
    "repetition_penalty": "f32",
    "suffix": "a string",
}
"""Fields of `CompletionRequest`."""
STREAM_OPTIONS: Mapping[str, str] = {"include_usage": "a boolean"}
"""Fields of `StreamOptions`."""
_NOT_OPTIONAL = {"messages", "stream", "stream_options", *STREAM_OPTIONS}


def form_error(said: str) -> ApiError:
    """Return the response to an invalid body."""
    return ApiError(422, said, kind="form")


def check(body: Any, fields: Mapping[str, str], where: str = "") -> None:
    """Reject fields of the wrong type.

    Args:
        body: value that must be a mapping.
        fields: types that serde expects.
        where: path of the mapping in the request; empty for the whole request.

    Raises:
        ApiError: 422 with serde's message.
    """
    if not isinstance(body, dict):
        raise _wrong(where, body, "struct StreamOptions")
    given = cast(asks.Json, body)
    for name, wanted in fields.items():
        if name not in given:
            continue
        value: Any = given[name]
        if value is None and name not in _NOT_OPTIONAL:
            continue
        path = f"{where}.{name}" if where else name
        if not _fits(value, wanted):
            raise _wrong(path, value, wanted)
        if name in ("messages", "stop"):
            _check_items(path, value, name)
        if name == "stream_options":
            check(value, STREAM_OPTIONS, path)


def _check_items(path: str, items: list[Any] | None, name: str) -> None:
    for at, item in enumerate(items or []):
        where = f"{path}[{at}]"
        if name == "messages":
            _check_message(where, item)
        elif not isinstance(item, str):
            raise _wrong(where, item, "a string")


def _check_message(where: str, found: Any) -> None:
    if not isinstance(found, dict):
        raise _wrong(where, found, "struct Message")
    message = cast(asks.Json, found)
    role: Any = message.get("role")
    if "role" not in message:
        raise form_error(f"{where}: missing field `role`")
    if not isinstance(role, str):
        raise _wrong(f"{where}.role", role, "a string")
    content: Any = message.get("content")
    parts = cast(list[Any], content) if isinstance(content, list) else []
    calls: Any = message.get("tool_calls")
    has_calls = isinstance(calls, list) and all(
        isinstance(call, dict) for call in cast("list[Any]", calls)
    )
    has_text = isinstance(content, (str, list)) and all(map(_is_part, parts))
    if not has_text and not has_calls:
        raise form_error(f"{where}: data did not match any variant of untagged enum MessageBody")


def _is_part(part: Any) -> bool:
    if not isinstance(part, dict):
        return False
    known = cast(asks.Json, part)
    image: Any = known.get("image_url")
    is_image = isinstance(image, dict) and isinstance(image.get("url"), str)
    found = {"image_url": is_image, "text": isinstance(known.get("text"), str)}
    return found.get(str(known.get("type")), False)


def _fits(value: Any, wanted: str) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if wanted == "f32":
        return is_number
    if wanted in _LARGEST:
        is_whole = is_number and isinstance(value, int)
        return is_whole and _LEAST.get(wanted, 0) <= value <= _LARGEST[wanted]
    kinds = {"a boolean": bool, "a string": str, _PLURAL: list}
    return isinstance(value, kinds.get(wanted, dict))


def _wrong(where: str, value: Any, wanted: str) -> ApiError:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    problem = "invalid value" if is_whole and wanted in _LARGEST else "invalid type"
    before = f"{where}: " if where else ""
    return form_error(f"{before}{problem}: {_unexpected(value)}, expected {wanted}")


def _unexpected(value: Any) -> str:
    """Return serde's description of a value (`serde::de::Unexpected`)."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"boolean `{str(value).lower()}`"
    if isinstance(value, int):
        return f"integer `{value}`"
    if isinstance(value, float):
        return f"floating point `{value}`"
    if isinstance(value, str):
        return 'string "' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return "sequence" if isinstance(value, list) else "map"
