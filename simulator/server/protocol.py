"""The bodies of the OpenAI API: what is read, checked and written."""

import json
import math
import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

from aiohttp import web

from simulator.server import shapes, text
from simulator.server.errors import ApiError
from simulator.server.messages import chat_text
from simulator.server.structured import Form, form_of

Json = dict[str, Any]
_EMBEDDING_WIDTH = 768


@dataclass(frozen=True)
class Ask:
    """A generation request, checked."""

    model: str
    prompt: list[int]
    max_tokens: int
    output: list[str]
    """The pieces of the answer."""
    stopped_by: str | None
    chat: bool
    stream: bool
    usage_chunk: bool
    continuous_usage: bool
    priority: int
    form: Form | None = None
    """What the answer must be; None: text."""


async def read_json(request: web.Request) -> Json:
    """Return the body.

    Raises:
        ApiError: it is not a JSON object.
    """
    raw = await request.read()
    try:
        body = json.loads(raw)
    except ValueError as error:
        where = getattr(error, "pos", 0)
        found = f"'msg': 'JSON decode error', 'ctx': {{'error': '{getattr(error, 'msg', error)}'}}"
        raise invalid(f"body.{where}" if raw else "body", "json_invalid", found) from error
    if not isinstance(body, dict):
        raise invalid(
            "body", "model_attributes_type", "'msg': 'Input should be a valid dictionary'"
        )
    return body  # pyright: ignore[reportUnknownVariableType]


def invalid(where: str, kind: str, found: str) -> ApiError:
    """Return the answer to a body that is not of the right form."""
    message = f"1 validation error:\n  {{'type': '{kind}', 'loc': '{where}', {found}}}"
    return ApiError(400, message, param=where, kind="Bad Request")


def _field(
    body: Json, name: str, accept: Callable[[Any], bool], rule: str, default: Any = None
) -> Any:
    value = body.get(name)
    if value is None:
        return default
    if not accept(value):
        raise ApiError(400, f"{name} must be {rule}, got {value!r}.", param=name)
    return value


def _number(low: float, high: float) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
    )


def _integer(low: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= low


def _is_strings(value: Any) -> bool:
    return isinstance(value, str) or (
        isinstance(value, list) and all(isinstance(item, str) for item in value)  # pyright: ignore[reportUnknownVariableType]
    )


def _refuse(body: Json) -> None:
    """Turn away what the simulation does not do, in words rather than by ignoring it."""
    if body.get("n") not in (None, 1):
        raise ApiError(400, f"n must be 1 on a simulated engine, got {body['n']!r}.", param="n")
    for name in ("logprobs", "prompt_logprobs", "top_logprobs"):
        if body.get(name) not in (None, False, 0):
            raise ApiError(400, f"{name} is not available on a simulated engine.", param=name)
    for name in ("echo", "suffix", "best_of", "use_beam_search"):
        if body.get(name) not in (None, False, 1, ""):
            raise ApiError(400, f"{name} is not available on a simulated engine.", param=name)


def prompt_tokens(prompt: Any, name: str = "prompt") -> list[list[int]]:
    """Return the prompts of a completion or embedding request as tokens.

    Raises:
        ApiError: not a text, a list of texts, a list of tokens or a list of those.
    """
    if isinstance(prompt, str):
        return [text.tokenize(prompt)]
    if isinstance(prompt, list) and prompt:
        items = cast(list[Any], prompt)
        if all(isinstance(item, str) for item in items):
            return [text.tokenize(item) for item in items]
        if all(isinstance(item, int) for item in items):
            return [items]
        if all(isinstance(item, list) for item in items):
            return [list(map(int, item)) for item in items]
    raise ApiError(400, f"{name} must be a text, a list of texts, or token numbers.", param=name)


def read_ask(
    body: Json, model: str, longest: int, *, chat: bool, has_auto_tools: bool = False
) -> Ask:
    """Check a generation request.

    Args:
        body: the request's.
        model: name that answers.
        longest: `--max-model-len`.
        chat: messages rather than a prompt.
        has_auto_tools: whether the server may choose a tool by itself.

    Raises:
        ApiError: with vLLM's status.
    """
    _refuse(body)
    if chat:
        prompts = [text.tokenize(chat_text(body.get("messages")))]
    else:
        prompts = prompt_tokens(body.get("prompt"))
    if len(prompts) > 1:
        raise ApiError(400, "one prompt a request on a simulated engine.", param="prompt")
    prompt = prompts[0]
    check_length(prompt, longest)
    _field(body, "temperature", _number(0, 100), "between 0 and 100")
    _field(body, "top_p", _number(1e-9, 1), "in (0, 1]")
    most = _longest_answer(body, len(prompt), longest, chat=chat)
    stops = _field(body, "stop", _is_strings, "a text or a list of texts", [])
    form = form_of(body, has_auto_tools=has_auto_tools) if chat else None
    if form is None:
        pieces = text.answer(model, prompt, most, ignore_end=bool(body.get("ignore_eos")))
    else:
        pieces = text.pieces(form.text)[:most]
    pieces, stopped = text.until_stop(pieces, [stops] if isinstance(stops, str) else stops)
    options = _stream_options(body)
    return Ask(
        model=model,
        prompt=prompt,
        max_tokens=most,
        output=pieces,
        stopped_by=stopped,
        chat=chat,
        stream=bool(body.get("stream")),
        usage_chunk=bool(options.get("include_usage")),
        continuous_usage=bool(options.get("continuous_usage_stats")),
        priority=int(_field(body, "priority", _integer(-(2**31)), "an integer", 0)),
        form=form,
    )


def _longest_answer(body: Json, prompt: int, longest: int, *, chat: bool) -> int:
    """Return the most tokens of the answer; refuse what the context has no room for."""
    most: Any = None
    if chat:
        most = _field(body, "max_completion_tokens", _integer(1), "at least 1")
    if most is None:
        default = longest - prompt if chat else 16
        most = _field(body, "max_tokens", _integer(1), "at least 1", default)
    if prompt + int(most) > longest:
        raise ApiError(
            400,
            f"'max_tokens' or 'max_completion_tokens' is too large: {most}. This model's maximum "
            f"context length is {longest} tokens and your request has {prompt} input tokens "
            f"({most} > {longest} - {prompt}).",
            param="max_tokens",
        )
    return int(most)


def _stream_options(body: Json) -> Json:
    options: Json = body.get("stream_options") or {}
    if options and not body.get("stream"):
        raise ApiError(
            400,
            "Stream options can only be defined when `stream=True`. (parameter=stream_options)",
            param="stream_options",
        )
    return options


def check_length(prompt: list[int], longest: int, output: int = 1) -> None:
    """Refuse a prompt that leaves no room in the context.

    Raises:
        ApiError: 400 with vLLM's words.
    """
    if not prompt:
        raise ApiError(400, "The decoder prompt cannot be empty", param="prompt")
    if len(prompt) > longest - output:
        raise ApiError(
            400,
            f"This model's maximum context length is {longest} tokens. However, your prompt "
            f"contains {len(prompt)} input tokens, which exceeds this limit even without any "
            "output tokens. Please reduce the length of the input prompt.",
            param="input_tokens",
        )


@dataclass
class Answer:
    """Writes the bodies of one answer."""

    ask: Ask
    id: str
    created: int
    include_details: bool = False
    call: str = field(default_factory=lambda: f"chatcmpl-tool-{uuid.uuid4().hex}")
    """Id of the call of a tool."""

    @property
    def tool(self) -> str | None:
        """Name of the tool that the answer calls."""
        return self.ask.form.tool if self.ask.form is not None else None

    def _reason(self, reason: str) -> str:
        form = self.ask.form
        is_call = form is not None and form.is_required and reason == "stop"
        return "tool_calls" if is_call else reason

    @classmethod
    def to(cls, ask: Ask, *, include_details: bool) -> "Answer":
        """Return a new answer with its own id."""
        prefix = "chatcmpl-" if ask.chat else "cmpl-"
        return cls(ask, prefix + uuid.uuid4().hex, int(time.time()), include_details)

    def _head(self, kind: str) -> Json:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.ask.model}

    def usage(self, generated: int, cached: int) -> Json:
        """Return the usage block."""
        prompt = len(self.ask.prompt)
        return {
            "prompt_tokens": prompt,
            "total_tokens": prompt + generated,
            "completion_tokens": generated,
            "prompt_tokens_details": {"cached_tokens": cached} if self.include_details else None,
            "completion_tokens_details": None,
        }

    def whole(self, generated: int, reason: str, cached: int) -> Json:
        """Return the body of an answer that is not streamed."""
        body = "".join(self.ask.output[:generated])
        choice: Json = {"index": 0, "logprobs": None, "finish_reason": self._reason(reason)}
        choice |= shapes.CHAT_CHOICE if self.ask.chat else shapes.COMPLETION_CHOICE
        choice["stop_reason"] = self.ask.stopped_by if reason == "stop" else None
        if self.ask.chat:
            choice["message"] = {
                "role": "assistant",
                "content": body,
                **shapes.MESSAGE,
            }
            if self.tool is not None:
                function = {"name": self.tool, "arguments": body}
                call = {"id": self.call, "type": "function", "function": function}
                choice["message"] |= {"content": "", "tool_calls": [call]}
        else:
            choice["text"] = body
        return {
            **self._head("chat.completion" if self.ask.chat else "text_completion"),
            "choices": [choice],
            "usage": self.usage(generated, cached),
            "service_tier": None,
            "system_fingerprint": shapes.fingerprint(),
            **(shapes.CHAT if self.ask.chat else shapes.COMPLETION),
        }

    def chunk(
        self, piece: str | None, reason: str | None = None, usage: Json | None = None
    ) -> Json:
        """Return one event of a stream; `piece` None: the first of a chat, with the role."""
        choice: Json = {
            "index": 0,
            "logprobs": None,
            "finish_reason": reason and self._reason(reason),
        }
        if self.ask.chat and self.tool is not None and piece is not None:
            part = {"index": 0, "function": {"arguments": piece}}
            choice["delta"] = {"tool_calls": [part]}
        elif self.ask.chat:
            choice["delta"] = (
                {"role": "assistant", "content": ""} if piece is None else {"content": piece}
            )
        else:
            choice["text"] = piece or ""
        choice |= shapes.chunk_choice(chat=self.ask.chat, first=piece is None)
        if reason is not None:
            choice["stop_reason"] = self.ask.stopped_by if reason == "stop" else None
        body = {
            **self._head("chat.completion.chunk" if self.ask.chat else "text_completion"),
            "choices": [choice],
            **(shapes.CHAT_BEGINNING if self.ask.chat and piece is None else {}),
        }
        if reason is not None and not self.ask.usage_chunk:
            body["system_fingerprint"] = shapes.fingerprint()
        return body if usage is None else {**body, "usage": usage}

    def calling(self) -> Json:
        """Return the event of a stream that names the tool which is called."""
        body = self.chunk("")
        (part,) = body["choices"][0]["delta"]["tool_calls"]
        part |= {"id": self.call, "type": "function"}
        part["function"]["name"] = self.tool
        return body

    def usage_event(self, generated: int, cached: int) -> Json:
        """Return the last event of a stream that was asked for usage."""
        kind = "chat.completion.chunk" if self.ask.chat else "text_completion"
        known = {k: v for k, v in self.usage(generated, cached).items() if v is not None}
        last = {"system_fingerprint": shapes.fingerprint()}
        return {**self._head(kind), "choices": [], "usage": known, **last}


def event(body: Json) -> bytes:
    """Return a body as one server-sent event."""
    return b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"


def plain_chunk(answer: Answer) -> Callable[[str], bytes]:
    """Return what writes the chunks of one answer that carry nothing but text.

    Nearly all chunks are of this kind, and all but their text is the same in each.
    """
    mark = "\x00piece\x00"
    before, after = event(answer.chunk(mark)).split(json.dumps(mark).encode())
    return lambda piece: before + json.dumps(piece).encode() + after


def embedding(tokens: list[int], width: int | None) -> list[float]:
    """Return a unit vector, near that of texts with the same words.

    A model would find texts near that mean the same in other words; this stand-in does not.
    """
    size = width or _EMBEDDING_WIDTH
    values = [
        sum(column) for column in zip(*(_direction(one, size) for one in tokens), strict=True)
    ]
    norm = math.sqrt(sum(value * value for value in values))
    return [value / norm for value in values]


@lru_cache(maxsize=2**12)
def _direction(token: int, size: int) -> tuple[float, ...]:
    """Return the direction of a token: those of two are nearly at right angles."""
    choose = random.Random(token)  # noqa: S311  # vectors, not secrets
    return tuple(choose.gauss(0, 1) for _ in range(size))
