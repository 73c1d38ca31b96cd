"""The bodies of SGLang's OpenAI API: `srt/entrypoints/openai/protocol.py` of 0.5.23."""

import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from aiohttp import web
from pydantic import BaseModel, ConfigDict

from simulator.dialects.forms import CallText
from simulator.dialects.server import GenerationRequest, reason_of
from simulator.engine.request import Request
from simulator.server.bodies import asks, fields, log_probabilities, text
from simulator.server.bodies.errors import ApiError
from simulator.server.bodies.structured import Form

DEFAULT_MODEL = "default"
"""Default model name of a request."""


class ResponseFormat(BaseModel):
    """`ResponseFormat`; the simulation rejects `structural_tag`."""

    model_config = ConfigDict(extra="allow")
    type: Literal["text", "json_object", "json_schema", "structural_tag"]
    json_schema: fields.JsonSchema | None = None


class _Body(fields.Request):
    model: str = DEFAULT_MODEL
    cache_salt: str | list[str] | None = None
    ebnf: str | None = None
    extra_key: str | list[str] | None = None
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
    response_format: ResponseFormat | None = None
    stream: bool = False


class Chat(_Body):
    """`ChatCompletionRequest`."""

    messages: list[Any]
    logprobs: bool = False
    max_completion_tokens: int | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    tool_choice: Literal["auto", "required", "none"] | fields.NamedTool | None = None
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


def _matched(ask: GenerationRequest, reason: str | None) -> str | int | None:
    """Return what ended a response: a stop text, or the ID of the end-of-text token."""
    return None if reason != "stop" else (ask.stopped_by or text.token("</s>"))


def _call_id() -> str:
    return f"call_{uuid.uuid4().hex[:24]}"


def _has_call(ask: GenerationRequest, reason: str) -> bool:
    """Return whether a response is a complete call that the server parses."""
    is_cut = reason != "stop" or ask.stopped_by is not None
    return ask.form is not None and ask.form.tool is not None and not is_cut


def _likely_chat(ask: GenerationRequest, pieces: Sequence[str]) -> Any:
    if ask.logprobs is None:
        return None
    return {"content": log_probabilities.of_text(ask.likely(pieces), ask.logprobs)}


def _likely_completion(ask: GenerationRequest, pieces: Sequence[str]) -> Any:
    """Return `LogProbs`, whose offsets SGLang does not compute."""
    if ask.logprobs is None:
        return None
    found = ask.likely(pieces)
    top = [dict(each.alternatives()[: ask.logprobs]) for each in found] if ask.logprobs else []
    return {
        "text_offset": [-1] * len(found),
        "token_logprobs": [each.value for each in found],
        "tokens": [each.piece for each in found],
        "top_logprobs": top,
    }


@dataclass(frozen=True)
class Answered:
    """A response that is not streamed: its choices, and whether it reports cached tokens."""

    asks: Sequence[GenerationRequest]
    requests: Sequence[Request]
    reports_cache: bool

    def body(self, *, is_chat: bool) -> Any:
        """Return `ChatCompletionResponse` or `CompletionResponse`."""
        first = self.asks[0]
        write = _chat_choice if is_chat else _completion_choice
        choices = [
            write(ask, request) for ask, request in zip(self.asks, self.requests, strict=True)
        ]
        firsts = list(first_choices(self.asks, self.requests))
        cached = sum(request.cached_tokens for _, request in firsts)
        return {
            "id": uuid.uuid4().hex,
            "object": "chat.completion" if is_chat else "text_completion",
            "created": int(time.time()),
            "model": first.model,
            "choices": choices,
            "usage": usage(
                sum(len(ask.prompt) for ask, _ in firsts),
                sum(request.generated for request in self.requests),
                cached if self.reports_cache else None,
            ),
            "metadata": {"weight_version": "default"},
        }


def first_choices(
    asks_: Sequence[GenerationRequest], requests: Sequence[Request]
) -> Iterator[tuple[GenerationRequest, Request]]:
    """Return the first choice of each prompt: the choices of one prompt have it in common."""
    seen: set[int] = set()
    for ask, request in zip(asks_, requests, strict=True):
        if id(ask.prompt) not in seen:
            seen.add(id(ask.prompt))
            yield ask, request


def _choice(ask: GenerationRequest, reason: str, likely: Any) -> asks.Json:
    return {
        "index": ask.index,
        "logprobs": likely,
        "finish_reason": reason,
        "matched_stop": _matched(ask, reason),
    }


def _chat_choice(ask: GenerationRequest, request: Request) -> Any:
    reason = reason_of(request)
    message: Any = {"role": "assistant", "content": ask.text, "reasoning_content": None}
    form = ask.form
    is_call = _has_call(ask, reason)
    if is_call and form is not None and form.span is not None:
        begin, end = form.span
        function = {"name": form.tool, "arguments": form.text[begin:end]}
        call = {"id": _call_id(), "index": 0, "type": "function", "function": function}
        message |= {"content": "", "tool_calls": [call]}
    reason = "tool_calls" if is_call else reason
    return {"message": message, **_choice(ask, reason, _likely_chat(ask, ask.output))}


def _completion_choice(ask: GenerationRequest, request: Request) -> Any:
    likely = _likely_completion(ask, ask.output)
    return {"text": ask.text, **_choice(ask, reason_of(request), likely)}


class _Events:
    """Shared code of both stream formats."""

    kind = ""

    def __init__(self, ask: GenerationRequest, *, include_usage: bool) -> None:
        self._ask = ask
        self._include_usage = include_usage
        self._head = {
            "id": uuid.uuid4().hex,
            "object": self.kind,
            "created": int(time.time()),
            "model": ask.model,
        }

    def opening(self) -> list[Any]:
        """Return nothing: the role of a chat comes with its first token."""
        return []

    def usage_event(self, prompt: int, requests: Sequence[Request]) -> list[Any]:
        """Return the usage if requested."""
        if not self._include_usage:
            return []
        found = usage(prompt, sum(request.generated for request in requests))
        return [{**self._head, "choices": [], "usage": found}]

    def ending(self, requests: Sequence[Request]) -> list[Any]:
        """Return the usage, with the tokens of each prompt once."""
        prompts = {id(request.prompt): len(request.prompt) for request in requests}
        return self.usage_event(sum(prompts.values()), requests)


class ChatEvents(_Events):
    """A streamed chat: role, text, a separate finish reason, and usage if requested."""

    kind = "chat.completion.chunk"
    _began = False
    _call: CallText | None = None
    _is_called = False

    def _event(self, delta: Any, reason: str | None = None, likely: Any = None) -> Any:
        ended = "stop" if reason == "tool_calls" else reason
        choice = {
            "index": self._ask.index,
            "delta": {"reasoning_content": None, **delta},
            "logprobs": likely,
            "finish_reason": reason,
            "matched_stop": _matched(self._ask, ended),
        }
        return {**self._head, "choices": [choice]}

    def piece(self, pieces: Sequence[str], request: Request) -> list[Any]:
        """Return the events of some tokens, after the role for the first ones."""
        made = [] if self._began else [self._event({"role": "assistant", "content": ""})]
        self._began = True
        part = "".join(pieces)
        likely = _likely_chat(self._ask, pieces)
        form = self._ask.form
        if form is not None and form.tool is not None:
            return [*made, *self._called(form, part, likely)]
        return [*made, self._event({"content": part}, likely=likely)] if part else made

    def _called(self, form: Form, part: str, likely: Any) -> list[Any]:
        """Return the events of a call: its name, then its arguments."""
        self._call = self._call or CallText(form)
        arguments = self._call.arguments(part)
        made: list[Any] = []
        if self._call.is_named and not self._is_called:
            self._is_called = True
            made.append({"id": _call_id(), "function": {"name": form.tool, "arguments": ""}})
        if arguments:
            made.append({"id": None, "function": {"name": None, "arguments": arguments}})
        if not made:  # the parser keeps the text back
            return [self._event({}, likely=likely)] if likely else []
        calls = [{"index": 0, "type": "function", **each} for each in made]
        found = [self._event({"tool_calls": [call]}) for call in calls]
        if likely:
            found.append(self._event({}, likely=likely))
        return found

    def closing(self, request: Request) -> list[Any]:
        """Return the finish reason."""
        reason = reason_of(request)
        return [self._event({}, "tool_calls" if _has_call(self._ask, reason) else reason)]


class CompletionEvents(_Events):
    """A streamed completion: text, the finish reason with the last text, and usage."""

    kind = "text_completion"

    def piece(self, pieces: Sequence[str], request: Request) -> list[Any]:
        """Return the event of some tokens; the last one has the finish reason."""
        reason = reason_of(request) if request.finished else None
        choice = {
            "index": self._ask.index,
            "text": "".join(pieces),
            "logprobs": _likely_completion(self._ask, pieces),
            "finish_reason": reason,
            "matched_stop": _matched(self._ask, reason),
        }
        return [{**self._head, "choices": [choice], "usage": None}]

    def closing(self, request: Request) -> list[Any]:
        """Return nothing."""
        return []


def extra_key(body: asks.Json) -> str:
    """Return what requests must have in common to share a prefix: `_compute_extra_key`.

    Each of the two fields can be a list, of which the simulation takes the first.
    """
    found: list[str] = []
    for name in ("cache_salt", "extra_key"):
        given: str | list[str] | None = body.get(name)
        found += given[:1] if isinstance(given, list) else [given or ""]
    return "".join(found)
