"""Calls of tools in Triton's OpenAI front end at v2.70.0.

Read from `engine/triton_engine.py` and `engine/utils/triton.py`. A named or required tool becomes a
schema for TensorRT-LLM's guided decoding. The front end reads no `response_format`.
"""

import re
from typing import Any

from simulator.dialects.forms import Json, filled, function_named
from simulator.server.bodies.errors import ApiError
from simulator.server.bodies.structured import Form

_GUIDE = re.compile(r'"guided_decoding_backend"\s*value:?\s*\{\s*string_value:\s*"(\w+)"')
_NO_GUIDE = (
    "Encountered an error when fetching new request: [TensorRT-LLM][ERROR] Assertion failed: "
    "Request is specified with GuidedDecodingParams, but GuidedDecoder is not setup. Please "
    "provide a valid GuidedDecodingConfig to setup GuidedDecoder."
)
"""TensorRT-LLM's error (github.com/NVIDIA/TensorRT-LLM/issues/2624), without its traceback."""


def has_guide(config: str) -> bool:
    """Return whether a model's config.pbtxt sets `guided_decoding_backend`.

    A template that was not filled in has `${guided_decoding_backend}`, which sets nothing
    (tensorrtllm_backend docs/guided_decoding.md).
    """
    return _GUIDE.search(config) is not None


def form_of(body: Json, *, has_parser: bool, is_guided: bool) -> Form | None:
    """Return the required call of a chat; None for text.

    The required tool is the first one.

    Args:
        body: validated body of the request.
        has_parser: whether the server has `--tool-call-parser`.
        is_guided: whether the engine was built to follow a schema.

    Raises:
        ApiError: 400 if the front end rejects the request, 500 if it or the engine fails.
    """
    tools: list[Json] = body.get("tools") or []
    choice: Any = body.get("tool_choice")
    if choice == "none" or (choice is None and not tools):
        return None
    if choice in (None, "auto"):
        if has_parser:
            return None
        begin = "having tools in the request" if choice is None else '"auto" tool choice'
        raise ApiError(400, f"{begin} requires --tool-call-parser to be set")
    if not tools:
        begin = '"required"' if choice == "required" else "Named"
        said = "tool choice requires CreateChatCompletionRequest.tools to be provided"
        raise ApiError(400, f"{begin} {said}")
    name = str(tools[0]["function"]["name"] if choice == "required" else choice["function"]["name"])
    function = function_named(tools, name)
    if function is None:
        raise ApiError(400, f"Tool '{name}' has not been passed in `tools`.")
    if function.get("parameters") is None:
        raise ApiError(500, "'NoneType' object has no attribute 'model_dump_json'")
    if not is_guided:
        raise ApiError(500, _NO_GUIDE)
    return Form(filled(function["parameters"]), name)
