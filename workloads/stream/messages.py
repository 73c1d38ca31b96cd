"""Converts a message to a request of OpenAI's API, or rejects it with a reason."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from workloads.common.sending import TEAM_HEADER

_PATHS: Final = {
    "messages": "/v1/chat/completions",
    "prompt": "/v1/completions",
    "input": "/v1/embeddings",
}
"""Path of a request by the member that only its kind has."""
_TRACES: Final = ("googclient_traceparent", "traceparent")
"""Attributes of the trace context: that of Google's clients first, then the plain one."""
_STATES: Final = ("googclient_tracestate", "tracestate")
_PARENT: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)
"""`traceparent` of W3C Trace Context, section 3.2.2 (www.w3.org/TR/trace-context)."""
_STATE: Final = re.compile(r"[\x20-\x7e]{1,512}")
"""Characters of `tracestate` (section 3.3.1.3), and the length that everybody must pass on."""


class Poison(Exception):
    """A message that fails permanently.

    Attributes:
        reason: A word for it, the attribute `reason` of the dead letter.
        detail: More of it, without content.
        attempts: How often the model was asked.
    """

    def __init__(self, reason: str, detail: str = "", attempts: int = 0) -> None:
        super().__init__(detail or reason)
        self.reason = reason
        self.detail = detail
        self.attempts = attempts


@dataclass(frozen=True)
class Message:
    """Message of any source."""

    id: str
    data: bytes
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])
    key: str = ""
    """Messages of the same key are answered in order if the stream is ordered."""
    delivery: int = 1
    """Number of deliveries, including this one."""


@dataclass(frozen=True)
class Request:
    """A request to the model."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str]


def request_of(
    message: Message,
    *,
    model: str,
    names: tuple[str, ...],
    objective: str,
    max_bytes: int,
    team: str = "",
) -> Request:
    """Return the request of a message.

    Raises:
        Poison: It is too large, no JSON object, of no known kind, or for another model.
    """
    if len(message.data) > max_bytes:
        raise Poison("too-large", f"{len(message.data)} bytes, at most {max_bytes}")
    try:
        content = json.loads(message.data)
    except (ValueError, RecursionError):
        raise Poison("not-json") from None
    if not isinstance(content, dict):
        raise Poison("not-an-object", f"a JSON {type(content).__name__}")
    body = cast("dict[str, Any]", content)
    kinds = [path for member, path in _PATHS.items() if member in body]
    if len(kinds) != 1:
        raise Poison("no-request", f"must have one of {', '.join(_PATHS)}")
    named = body.setdefault("model", model)
    if named not in names:
        raise Poison("unknown-model", f"{str(named)[:100]!r} is not of this stream")
    body.pop("stream", None)
    body.pop("stream_options", None)
    headers = {"content-type": "application/json", "x-request-id": message.id}
    if team:
        headers[TEAM_HEADER] = team
    if objective:
        headers["x-gateway-inference-objective"] = objective
    headers |= trace_of(message.attributes)
    return Request(kinds[0], body, headers)


def trace_of(attributes: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that pass a message's trace context on; none of one that is not W3C's."""
    parent = _first(attributes, _TRACES, _PARENT)
    if parent is None:
        return {}
    state = _first(attributes, _STATES, _STATE)
    return {"traceparent": parent, **({} if state is None else {"tracestate": state})}


def _first(
    attributes: Mapping[str, str], names: tuple[str, ...], pattern: re.Pattern[str]
) -> str | None:
    found = (attributes.get(name, "") for name in names)
    return next((value for value in found if pattern.fullmatch(value)), None)
