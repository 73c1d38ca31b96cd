"""What SGLang 0.5.23 requires of a response: a JSON document or a call of a tool.

Read from the wheel of that release: `_validate_request`, `_tool_call_parsing_active` and
`_process_tool_calls` of `serving_chat.py`, and `get_json_schema_constraint`.
"""

from typing import Any, cast

from simulator.dialects.forms import Json, call_in, filled, function_named
from simulator.server.bodies.errors import ApiError
from simulator.server.bodies.structured import Form, written

BAD = "BadRequest"
"""SGLang's type of an error that it finds after the validation of a request."""
NOT_SIMULATED = ("ebnf", "echo", "json_schema", "regex")
"""Fields of a request that the simulation rejects."""
NOT_ROUTED = (
    "/v1/classify",
    "/v1/detokenize",
    "/v1/messages",
    "/v1/rerank",
    "/v1/responses",
    "/v1/score",
    "/generate",
)
"""Paths that the simulation rejects."""


def form_of(body: Json, *, has_parser: bool) -> Form | None:
    """Return the required form of a response; None for text.

    A named or required tool makes SGLang write a JSON array of calls. Only a server with
    `--tool-call-parser` turns it into calls; otherwise it is the text of the response.

    Args:
        body: validated body of a chat or completion.
        has_parser: whether the server has `--tool-call-parser`.

    Raises:
        ApiError: 400 if SGLang rejects the request, or if the schema cannot be filled here.
    """
    function = _forced(body)
    wanted = _document(body)
    if function is None:
        return wanted
    if wanted is not None:
        raise ApiError(
            400,
            "tool_choice 'required' or a named tool cannot be combined with response_format, "
            "regex, or ebnf: the tool-call constraint and the output constraint cannot both be "
            "honored.",
            kind=BAD,
        )
    name = str(function["name"])
    before = f'[{{"name": "{name}", "parameters": '
    form = call_in(before, filled(function.get("parameters")), "}]", name)
    return form if has_parser else Form(form.text)


def _document(body: Json) -> Form | None:
    wanted: Json = body.get("response_format") or {}
    kind = wanted.get("type", "text")
    if kind == "text":
        return None
    if kind == "json_object":
        return Form("{}")
    if kind != "json_schema":
        said = f"response_format {kind!r} is not available on a simulated engine."
        raise ApiError(400, said, param="response_format", kind="not simulated")
    given: Json = wanted.get("json_schema") or {}
    if given.get("schema") is None:
        raise ApiError(400, "schema_ is required for json_schema response format request.")
    return Form(written(given["schema"]))


def _forced(body: Json) -> Json | None:
    """Return the function that must be called, or None."""
    tools: list[Json] = body.get("tools") or []
    choice = body.get("tool_choice")
    if choice == "required":
        if not tools:
            raise ApiError(400, "Tools cannot be empty if tool choice is set to required.")
        return tools[0]["function"]
    if not isinstance(choice, dict):
        return None
    if not tools:
        raise ApiError(400, "Tools cannot be empty if tool choice is set to a specific tool.")
    name = str(cast("dict[str, Any]", choice)["function"]["name"])
    function = function_named(tools, name)
    if function is None:
        raise ApiError(400, f"Tool '{name}' not found in tools list.")
    return function


def choices_of(body: Json) -> int:
    """Return the number of choices.

    Raises:
        ApiError: SGLang does not check the number; below one is not simulated.
    """
    count = int(body.get("n", 1))
    if count < 1:
        said = f"n below 1 is not available on a simulated engine, got {count}."
        raise ApiError(400, said, param="n", kind="not simulated")
    return count


def logprobs_of(body: Json, *, is_chat: bool) -> int | None:
    """Return the number of alternatives with log probabilities; None for no probabilities."""
    if not is_chat:
        return body.get("logprobs")
    return int(body.get("top_logprobs") or 0) if body.get("logprobs") else None


def protocol_error(field: str, message: str) -> ApiError:
    """Return the response to an invalid body; FastAPI's 422 becomes 400."""
    found = f"{{'type': 'value_error', 'loc': ('body', '{field}'), 'msg': '{message}'}}"
    return ApiError(400, f"1 validation error:\n  {found}", kind="Bad Request")
