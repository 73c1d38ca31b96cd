"""Validates the requests of a batch before any is sent, like OpenAI's Batch API."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from .records import Shard
from .settings import Model

_MOST_ERRORS: Final = 100
LONGEST_LINE: Final = 8 * 2**20
"""Maximum request size of the clients' gate; longer lines are not parsed."""
_MOST_LEVELS: Final = 100
_MOST_INPUTS_OF_ONE: Final = 2048
_MOST_INPUTS: Final = 50_000
"""Inputs of embeddings of a request and of a batch, as OpenAI has them."""


@dataclass
class _Seen:
    ids: set[bytes] = field(default_factory=set[bytes])
    """Digests of them."""
    inputs: int = 0
    engine: str | None = None
    """Who answers the first request: the own engine, or empty for the pool."""


@dataclass
class Checked:
    """Result of validating the input of a batch."""

    errors: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Errors in the format of the API; if there are any, the batch fails."""
    shards: list[Shard] = field(default_factory=list[Shard])
    total: int = 0
    """Requests."""
    engine: str = ""
    """Own engine that answers all requests; empty for the pool behind the gateway."""


@dataclass(frozen=True)
class Bounds:
    """Limits of a batch, and its distribution to workers."""

    endpoint: str
    models: Mapping[str, Model]
    """Names that its team may use."""
    max_lines: int
    shard_lines: int
    shard_bytes: int


def check(lines: Iterable[bytes], bounds: Bounds) -> Checked:
    """Return errors and shards of an input."""
    found = Checked()
    seen = _Seen()
    at = start = first = count = 0
    for number, raw in enumerate(lines, start=1):
        if raw.strip():
            found.total += 1
            if found.total > bounds.max_lines:
                message = f"The input file has more than {bounds.max_lines} requests."
                found.errors = [_error("too_many_requests", message, None, None)]
                return found
            _check_line(raw, number, bounds, seen, found.errors)
            if seen.inputs > _MOST_INPUTS:
                message = f"The requests of the file have more than {_MOST_INPUTS} inputs."
                found.errors = [_error("too_many_inputs", message, "input", None)]
                return found
            if count >= bounds.shard_lines or (count and at - start >= bounds.shard_bytes):
                found.shards.append(Shard(len(found.shards), start, at, first, count))
                count = 0
            if not count:
                start, first = at, number
            count += 1
        at += len(raw)
    if count:
        found.shards.append(Shard(len(found.shards), start, at, first, count))
    if not found.total:
        found.errors = [_error("empty_file", "The input file has no requests.", None, None)]
    found.engine = seen.engine or ""
    return found


def _check_line(
    raw: bytes, number: int, bounds: Bounds, seen: _Seen, errors: list[dict[str, Any]]
) -> None:
    wrong = _wrong(raw, bounds, seen)
    if wrong is not None and len(errors) < _MOST_ERRORS:
        code, message, param = wrong
        errors.append(_error(code, message, param, number))


def _wrong(raw: bytes, bounds: Bounds, seen: _Seen) -> tuple[str, str, str | None] | None:
    """Return code, message and field of an error in a line."""
    if len(raw) > LONGEST_LINE:
        return "request_too_large", "This request is larger than 8 MiB.", None
    line = _parsed(raw)
    if line is None or _is_too_deep(raw, line):
        message = f"This line is not a JSON object of at most {_MOST_LEVELS} levels."
        return "invalid_json_line", message, None
    for name, kind in (("custom_id", str), ("method", str), ("url", str), ("body", dict)):
        if not isinstance(line.get(name), kind) or (kind is str and not line[name]):
            return "missing_required_parameter", f"Missing required parameter: '{name}'.", name
    # a digest, as 50,000 ids may be long
    digest = hashlib.sha256(line["custom_id"].encode("utf-8", "surrogatepass")).digest()
    if digest in seen.ids:
        message = "The custom_id of this request is also that of another request of this file."
        return "duplicate_custom_id", message, "custom_id"
    seen.ids.add(digest)
    body = line["body"]
    return (
        _wrong_target(line, bounds)
        or _wrong_body(body, bounds)
        or _wrong_prompt(body, bounds)
        or _wrong_engine(body, bounds, seen)
        or _wrong_inputs(body, bounds, seen)
    )


def _wrong_inputs(
    body: dict[str, Any], bounds: Bounds, seen: _Seen
) -> tuple[str, str, str | None] | None:
    if bounds.endpoint != "/v1/embeddings":
        return None
    inputs = _inputs(body.get("input"))
    seen.inputs += inputs
    if inputs > _MOST_INPUTS_OF_ONE:
        message = f"This request has more than {_MOST_INPUTS_OF_ONE} inputs."
        return "invalid_request", message, "input"
    return None


def _inputs(given: Any) -> int:
    """Return the number of embeddings in an input; numbers are the tokens of one."""
    if not isinstance(given, list):
        return 1
    several = cast("list[Any]", given)
    return 1 if several and isinstance(several[0], int) else len(several)


def _parsed(raw: bytes) -> dict[str, Any] | None:
    try:
        content: Any = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", content) if isinstance(content, dict) else None


def _is_too_deep(raw: bytes, line: dict[str, Any]) -> bool:
    """Return whether those who read a request later may have no room for its levels."""
    if raw.count(b"[") + raw.count(b"{") <= _MOST_LEVELS:
        return False
    level: list[Any] = [line]
    for _ in range(_MOST_LEVELS):
        level = [child for each in level for child in _children(each)]
    return bool(level)


def _children(value: Any) -> list[Any]:
    """Return the objects and arrays of one."""
    within: Iterable[Any] = (
        cast("dict[str, Any]", value).values() if isinstance(value, dict) else value
    )
    return [each for each in within if isinstance(each, (dict, list))]


def _wrong_target(line: dict[str, Any], bounds: Bounds) -> tuple[str, str, str | None] | None:
    if line["method"] != "POST":
        return "invalid_method", "The method of this request must be POST.", "method"
    if line["url"] != bounds.endpoint:
        message = "The URL provided for this request does not match the batch endpoint."
        return "invalid_url", message, "url"
    return None


def _wrong_body(body: dict[str, Any], bounds: Bounds) -> tuple[str, str, str | None] | None:
    name = body.get("model")
    if not isinstance(name, str) or not name:
        return "missing_required_parameter", "Missing required parameter: 'body.model'.", "model"
    model = bounds.models.get(name)
    if model is None:
        return "model_not_found", "The model of this request does not exist.", "model"
    if bounds.endpoint not in model.endpoints:
        message = f"The model of this request does not support {bounds.endpoint}."
        return "model_not_supported", message, "model"
    if body.get("stream"):
        return "invalid_request", "Requests of a batch cannot be streamed.", "stream"
    if bounds.endpoint == "/v1/responses":
        return _wrong_response(body)
    return None


def _wrong_prompt(body: dict[str, Any], bounds: Bounds) -> tuple[str, str, str | None] | None:
    """Reject what engines take and the endpoint picker refuses: token IDs, or an empty prompt.

    github.com/kubernetes-sigs/gateway-api-inference-extension/issues/2835
    """
    if bounds.endpoint != "/v1/completions" or bounds.models[body["model"]].engine:
        return None
    prompt = body.get("prompt")
    texts = cast("list[Any]", prompt) if isinstance(prompt, list) else [prompt or None]
    if prompt is None or (texts and all(isinstance(each, str) for each in texts)):
        return None
    message = "The prompt of this request must be text: the gateway reads no token IDs."
    return "invalid_request", message, "prompt"


def _wrong_engine(
    body: dict[str, Any], bounds: Bounds, seen: _Seen
) -> tuple[str, str, str | None] | None:
    """Reject a second engine: a batch has one job, or none."""
    engine = bounds.models[body["model"]].engine
    if seen.engine is None:
        seen.engine = engine
    if engine == seen.engine:
        return None
    message = "This model has another engine than the first of this file: use one file for each."
    return "mixed_engines", message, "model"


def _wrong_response(body: dict[str, Any]) -> tuple[str, str, str | None] | None:
    """Reject what needs stored responses: engines keep none."""
    if body.get("background"):
        return "invalid_request", "Requests of a batch cannot run in the background.", "background"
    for name in ("conversation", "previous_response_id"):
        if body.get(name) is not None:
            message = f"Responses are not stored, so '{name}' refers to nothing."
            return "invalid_request", message, name
    if body.get("input") is None:
        return "missing_required_parameter", "Missing required parameter: 'body.input'.", "input"
    return None


def _error(code: str, message: str, param: str | None, line: int | None) -> dict[str, Any]:
    return {"code": code, "message": message, "param": param, "line": line}
