"""The bodies of SGLang's OpenAI API: `srt/entrypoints/openai/protocol.py` of 0.5.23."""

import time
import uuid
from typing import Any, Literal, cast

from aiohttp import web
from pydantic import BaseModel, ConfigDict

from simulator.dialects.server import Ask, reason_of
from simulator.engine.request import Request
from simulator.server.bodies import asks, fields, text
from simulator.server.bodies.errors import ApiError

DEFAULT_MODEL = "default"
"""Default model name of a request."""


class _Body(fields.Request):
    model: str = DEFAULT_MODEL
    ebnf: str | None = None
    frequency_penalty: float = 0.0
    ignore_eos: bool = False
    json_schema: str | None = None
    logit_bias: dict[str, float] | None = None
    lora_path: list[str | None] | str | None = None
    min_tokens: int = 0
    n: int = 1
    presence_penalty: float = 0.0
    priority: int | None = None
    regex: str | None = None
    response_format: fields.ResponseFormat | None = None
    stream: bool = False


class Chat(_Body):
    """`ChatCompletionRequest`."""

    messages: list[Any]
    logprobs: bool = False
    max_completion_tokens: int | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    tool_choice: Literal["auto", "required", "none"] | fields.NamedTool = "auto"
    tools: list[fields.Tool] | None = None
    top_logprobs: int | None = None
    top_p: float | None = None


class Completion(_Body):
    """`CompletionRequest`."""

    prompt: list[int] | list[list[int]] | str | list[str]
    best_of: int | None = None
    echo: bool = False
    logprobs: int | None = None
    max_tokens: int = 16
    suffix: str | None = None
    temperature: float = 1.0
    top_p: float = 1.0


class Embedding(BaseModel):
    """`EmbeddingRequest`, its simulated part."""

    model_config = ConfigDict(extra="allow")
    input: list[int] | list[list[int]] | str | list[str]
    model: str = DEFAULT_MODEL
    dimensions: int | None = None


class Tokenized(BaseModel):
    """`TokenizeRequest`."""

    model_config = ConfigDict(extra="allow")
    messages: list[Any] | None = None
    prompt: str | list[str] | None = None


class NoAdapter(BaseModel):
    """`UnloadLoRAAdapterReqInput`."""

    model_config = ConfigDict(extra="allow")
    lora_name: str


class Adapter(NoAdapter):
    """`LoadLoRAAdapterReqInput`."""

    lora_path: str


async def read_body(http: web.Request, form: type[BaseModel]) -> asks.Json:
    """Return the validated body of a request.

    Raises:
        ApiError: the content type or the body is not JSON, or a field has the wrong type.
    """
    media = http.headers.get("Content-Type", "").lower().partition(";")[0]
    if media != "application/json":
        found = "Unsupported Media Type: Only 'application/json' is allowed"
        raise ApiError(400, f"1 validation error:\n  {{'msg': \"{found}\"}}", kind="Bad Request")
    return fields.checked(form, await asks.read_json(http))


def prompts_of(prompt: Any) -> list[list[int]]:
    """Return the prompts of a completion as tokens.

    Raises:
        ApiError: the prompt is empty or has the wrong format.
    """
    if prompt in ("", []):
        raise ApiError(400, "Prompt cannot be empty")
    return asks.prompt_tokens(prompt)


def stops_of(body: asks.Json) -> list[str]:
    """Return the stop texts of a request."""
    found: Any = body.get("stop")
    if found is None:
        return []
    return [found] if isinstance(found, str) else [str(each) for each in cast(list[Any], found)]


def usage(prompt: int, generated: int, cached: int | None = None) -> Any:
    """Return `UsageInfo`; with `cached` None, it does not report cached tokens."""
    details = None if cached is None else {"cached_tokens": cached}
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + generated,
        "completion_tokens": generated,
        "prompt_tokens_details": details,
        "reasoning_tokens": 0,
        "completion_tokens_details": None,
    }


def _matched(ask: Ask, reason: str | None) -> str | int | None:
    """Return what ended a response: a stop text, or the ID of the end-of-text token."""
    return None if reason != "stop" else (ask.stopped_by or text.token("</s>"))


def _body(kind: str, ask: Ask, choice: Any, generated: int, cached: int | None) -> Any:
    return {
        "id": uuid.uuid4().hex,
        "object": kind,
        "created": int(time.time()),
        "model": ask.model,
        "choices": [choice],
        "usage": usage(len(ask.prompt), generated, cached),
        "metadata": {"weight_version": "default"},
    }


def chat_body(ask: Ask, generated: int, reason: str, cached: int | None) -> Any:
    """Return `ChatCompletionResponse`."""
    message = {"role": "assistant", "content": ask.text, "reasoning_content": None}
    choice = {"index": 0, "message": message, "logprobs": None}
    choice |= {"finish_reason": reason, "matched_stop": _matched(ask, reason)}
    return _body("chat.completion", ask, choice, generated, cached)


def completion_body(ask: Ask, generated: int, reason: str, cached: int | None) -> Any:
    """Return `CompletionResponse`."""
    choice = {"index": 0, "text": ask.text, "logprobs": None}
    choice |= {"finish_reason": reason, "matched_stop": _matched(ask, reason)}
    return _body("text_completion", ask, choice, generated, cached)


class _Events:
    """Shared code of both stream formats."""

    kind = ""

    def __init__(self, ask: Ask, name: str, *, include_usage: bool) -> None:
        self._ask = ask
        self._include_usage = include_usage
        self._head = {
            "id": name,
            "object": self.kind,
            "created": int(time.time()),
            "model": ask.model,
        }

    def _usage_event(self, request: Request) -> list[Any]:
        if not self._include_usage:
            return []
        found = usage(len(self._ask.prompt), request.generated)
        return [{**self._head, "choices": [], "usage": found}]


class ChatEvents(_Events):
    """A streamed chat: role, text, a separate finish reason, and usage if requested."""

    kind = "chat.completion.chunk"
    _began = False

    def _event(self, delta: Any, reason: str | None = None) -> Any:
        choice = {
            "index": 0,
            "delta": {"reasoning_content": None, **delta},
            "logprobs": None,
            "finish_reason": reason,
            "matched_stop": _matched(self._ask, reason),
        }
        return {**self._head, "choices": [choice]}

    def opening(self) -> list[Any]:
        """Return nothing, because the role comes with the first token."""
        return []

    def piece(self, part: str, request: Request) -> list[Any]:
        """Return the event of some text, after the role for the first one."""
        first = [] if self._began else [self._event({"role": "assistant", "content": ""})]
        self._began = True
        return [*first, *([self._event({"content": part})] if part else [])]

    def closing(self, request: Request) -> list[Any]:
        """Return the finish reason, then the usage."""
        return [self._event({}, reason_of(request)), *self._usage_event(request)]


class CompletionEvents(_Events):
    """A streamed completion: text, the finish reason with the last text, and usage."""

    kind = "text_completion"

    def _event(self, part: str, reason: str | None) -> Any:
        choice = {
            "index": 0,
            "text": part,
            "logprobs": None,
            "finish_reason": reason,
            "matched_stop": _matched(self._ask, reason),
        }
        return {**self._head, "choices": [choice], "usage": None}

    def opening(self) -> list[Any]:
        """Return nothing."""
        return []

    def piece(self, part: str, request: Request) -> list[Any]:
        """Return the event of some text; the last one has the finish reason."""
        return [self._event(part, reason_of(request) if request.finished else None)]

    def closing(self, request: Request) -> list[Any]:
        """Return the usage."""
        return self._usage_event(request)
