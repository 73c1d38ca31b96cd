"""The bodies of vLLM's Messages API (`/v1/messages`), which has the form of Anthropic's.

vLLM turns a request into a chat and the chat's answer into content blocks; so does this module.
Fields, events and errors are those of vLLM 0.32.0 (entrypoints/anthropic: `protocol.py` and
`serving.py`).
"""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, cast

from aiohttp import web
from pydantic import BaseModel, Field, model_validator

from simulator.server.bodies.asks import CompletionRequest
from simulator.server.bodies.errors import ApiError
from simulator.server.bodies.json_answers import json_response

Json = dict[str, Any]
_BILLING = "x-anthropic-billing-header"
"""Beginning of a system text that differs in each request of an agent; vLLM drops the text."""


class _Block(BaseModel):
    type: Literal[
        "text",
        "image",
        "tool_use",
        "tool_result",
        "tool_reference",
        "thinking",
        "redacted_thinking",
        "tool_addition",
        "tool_removal",
    ]
    text: str | None = None
    source: Json | None = None
    id: str | None = None
    tool_use_id: str | None = None
    name: str | None = None
    input: Json | None = None
    content: str | list[Json] | None = None
    is_error: bool | None = None
    tool_name: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None


class _Message(BaseModel):
    role: Literal["user", "assistant", "system"]
    content: str | list[_Block]


class _Tool(BaseModel):
    name: str
    description: str | None = None
    input_schema: Json
    strict: bool | None = None
    defer_loading: bool | None = None


class _ToolChoice(BaseModel):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None

    @model_validator(mode="after")
    def _has_name(self) -> "_ToolChoice":
        if self.type == "tool" and not self.name:
            raise ValueError("tool_choice.name is required when type is 'tool'")
        return self


class _Format(BaseModel):
    written: Json | None = Field(default=None, alias="schema")
    type: Literal["json_schema"] = "json_schema"


class _OutputConfig(BaseModel):
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: _Format | None = None


class _Enabled(BaseModel):
    type: Literal["enabled"]
    budget_tokens: int = Field(ge=1024)
    display: Literal["summarized", "omitted", "updates"] | None = None


class _Disabled(BaseModel):
    type: Literal["disabled"]


class _Adaptive(BaseModel):
    type: Literal["adaptive"]
    display: Literal["summarized", "omitted", "updates"] | None = None


class VllmCount(BaseModel):
    """`/v1/messages/count_tokens` of vLLM. Unknown fields are ignored."""

    model: Annotated[str, Field(min_length=1)]
    messages: list[_Message]
    output_config: _OutputConfig | None = None
    thinking: Annotated[_Enabled | _Disabled | _Adaptive, Field(discriminator="type")] | None = None
    system: str | list[_Block] | None = None
    tool_choice: _ToolChoice | None = None
    tools: list[_Tool] | None = None
    chat_template_kwargs: Json | None = None


class VllmMessages(VllmCount):
    """`/v1/messages` of vLLM. Unknown fields are ignored."""

    max_tokens: Annotated[int, Field(gt=0)]
    metadata: Json | None = None
    stop_sequences: list[str] | None = None
    stream: bool | None = False
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    cache_salt: Annotated[str, Field(min_length=1, max_length=1024)] | None = None

    @model_validator(mode="after")
    def _has_room_to_answer(self) -> "VllmMessages":
        thinking = self.thinking
        if isinstance(thinking, _Enabled) and thinking.budget_tokens >= self.max_tokens:
            raise ValueError("thinking.budget_tokens must be less than max_tokens")
        return self


class MessagesError(ApiError):
    """An error in Anthropic's form. Those of the fields' types have OpenAI's, as in vLLM."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(error.status, error.message, error.param, error.kind)

    def body(self) -> Json:
        """Return the body."""
        return {"type": "error", "error": {"type": self.kind, "message": self.message}}

    def response(self) -> web.Response:
        """Return the answer."""
        return json_response(self.body(), status=self.status)


def chat_of(body: Json) -> Json:
    """Return the chat that a request becomes.

    Args:
        body: validated body (`VllmMessages`, or `VllmCount`).
    """
    chat: Json = {
        "messages": _messages(body),
        "max_tokens": body.get("max_tokens"),
        "max_completion_tokens": body.get("max_tokens"),
        "stop": body.get("stop_sequences"),
        "stream": body.get("stream"),
        "temperature": body.get("temperature"),
        "top_p": body.get("top_p"),
        "cache_salt": body.get("cache_salt"),
        "response_format": _format(body),
    }
    choice: Json = body.get("tool_choice") or {}
    names = {"auto": "auto", "any": "required", "none": "none"}
    if choice.get("type") == "tool":
        chat["tool_choice"] = {"type": "function", "function": {"name": choice["name"]}}
    else:
        chat["tool_choice"] = names.get(str(choice.get("type")))
    if body.get("tools") is not None:
        chat["tools"] = [_function(tool) for tool in body["tools"]]
    return {name: value for name, value in chat.items() if value is not None}


def _function(tool: Json) -> Json:
    made = {
        "name": tool["name"],
        "description": tool.get("description"),
        "parameters": {"type": "object", **tool["input_schema"]},
    }
    return {"type": "function", "function": made}


def _format(body: Json) -> Json | None:
    config: Json = body.get("output_config") or {}
    wanted: Json = config.get("format") or {}
    schema: Json | None = wanted.get("schema")
    if not schema:
        return None
    return {"type": "json_schema", "json_schema": {"name": "json_schema", "schema": schema}}


def _messages(body: Json) -> list[Json]:
    messages: list[Json] = []
    system = _system(body.get("system") or "")
    if system:
        messages.append({"role": "system", "content": system})
    for message in cast(list[Json], body["messages"]):
        content: Any = message["content"]
        if message["role"] == "system":
            if text := _system(content):
                messages.append({"role": "system", "content": text})
        elif isinstance(content, str):
            messages.append({"role": message["role"], "content": content})
        else:
            messages += _turn(str(message["role"]), cast(list[Json], content))
    return messages


def _system(content: str | list[Json]) -> str:
    texts = [content] if isinstance(content, str) else [str(b.get("text") or "") for b in content]
    return "".join(text for text in texts if not text.startswith(_BILLING))


def _turn(role: str, blocks: list[Json]) -> list[Json]:
    """Return the messages of a turn: results of tools come before the rest of it."""
    results: list[Json] = []
    parts: list[Json] = []
    for block in blocks:
        kind = block["type"]
        if kind == "text" and block.get("text"):
            parts.append({"type": "text", "text": block["text"]})
        elif kind == "image" and block.get("source"):
            parts.append(_image(block["source"]))
        elif kind == "thinking":
            parts.append({"type": "text", "text": block.get("thinking") or ""})
        elif kind == "tool_use":
            said = f"{block.get('name') or ''}({json.dumps(block.get('input') or {})})"
            parts.append({"type": "text", "text": said})
        elif kind == "tool_result" and role == "user":
            results += _result(block)
        elif kind == "tool_result":
            parts.append({"type": "text", "text": f"Tool result: {block.get('content') or ''}"})
    rest = [{"role": role, "content": parts}] if parts or role != "user" else []
    return [*results, *rest]


def _result(block: Json) -> list[Json]:
    content: Any = block.get("content")
    if not isinstance(content, list):
        return [{"role": "tool", "content": content or ""}]
    items = cast(list[Json], content)
    texts = [str(item.get("text", "")) for item in items if item.get("type") == "text"]
    messages: list[Json] = [{"role": "tool", "content": "\n".join(texts)}]
    images = [_image(item.get("source") or {}) for item in items if item.get("type") == "image"]
    return [*messages, {"role": "user", "content": images}] if images else messages


def _image(source: Json) -> Json:
    if source.get("type") == "url":
        url = source.get("url", "")
    else:
        url = f"data:{source.get('media_type', 'image/jpeg')};base64,{source.get('data', '')}"
    return {"type": "image_url", "image_url": {"url": url}}


@dataclass
class MessageWriter:
    """A writer of the bodies of one message."""

    ask: CompletionRequest
    has_details: bool = False
    """Whether the usage has the tokens that were in the cache (`--enable-prompt-tokens-details`)"""
    id: str = field(default_factory=lambda: f"chatcmpl-{uuid.uuid4().hex}")
    call: str = field(default_factory=lambda: f"chatcmpl-tool-{uuid.uuid4().hex}")

    @property
    def _tool(self) -> str | None:
        return self.ask.form.tool if self.ask.form is not None else None

    def _said(self, sent: int, generated: int) -> str:
        return "".join(self.ask.output[sent:generated])

    def whole(self, reason: str, generated: int, cached: int) -> Json:
        """Return the message.

        Args:
            reason: why it ended: `stop`, `length` or `abort`.
            generated: number of tokens of the message.
            cached: number of tokens of the prompt that were in the cache.

        Raises:
            ApiError: a call was cut, so that its arguments are no JSON; with vLLM's status.
        """
        said = self._said(0, generated)
        content: list[Json] = []
        if self._tool is not None:
            try:
                arguments = json.loads(said)
            except ValueError as error:
                raise ApiError(500, str(error)) from error
            content.append(self._called(arguments))
        elif said:
            content.append({"type": "text", "text": said})
        message: Json = {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "content": content,
            "model": self.ask.model,
            **self._stopped(reason),
            "usage": self._usage(generated, cached),
        }
        return {name: value for name, value in message.items() if value is not None}

    def _called(self, arguments: Any) -> Json:
        return {"type": "tool_use", "id": self.call, "name": self._tool, "input": arguments}

    def _stopped(self, reason: str) -> Json:
        kind = {"length": "max_tokens", "stop": "end_turn"}.get(reason)
        sequence = None
        if reason == "stop" and self._tool is not None:
            kind = "tool_use"
        elif reason == "stop" and self.ask.stopped_by is not None:
            kind, sequence = "stop_sequence", self.ask.stopped_by
        return {"stop_reason": kind, "stop_sequence": sequence}

    def _usage(self, generated: int, cached: int) -> Json:
        prompt = len(self.ask.prompt)
        if not self.has_details:
            return {"input_tokens": prompt, "output_tokens": generated}
        return {
            "input_tokens": prompt - cached,
            "output_tokens": generated,
            "cache_read_input_tokens": cached,
        }

    def beginning(self) -> Iterator[bytes]:
        """Yield the events before the first token."""
        message: Json = {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "content": [],
            "model": self.ask.model,
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": len(self.ask.prompt), "output_tokens": 0},
        }
        yield event("message_start", message=message)
        block = {"type": "text", "text": ""} if self._tool is None else self._called({})
        yield event("content_block_start", content_block=block, index=0)

    def delta(self, sent: int, generated: int) -> bytes:
        """Return the event with the tokens from `sent` up to `generated`; empty for no text."""
        said = self._said(sent, generated)
        if not said:
            return b""
        if self._tool is None:
            delta = {"type": "text_delta", "text": said}
        else:
            delta = {"type": "input_json_delta", "partial_json": said}
        return event("content_block_delta", delta=delta, index=0)

    def end(self, reason: str, generated: int, cached: int) -> Iterator[bytes]:
        """Yield the events after the last token; the arguments are those of `whole`."""
        yield event("content_block_stop", index=0)
        usage = self._usage(generated, cached)
        yield event("message_delta", delta=self._stopped(reason), usage=usage)
        yield event("message_stop")


def event(kind: str, **more: Any) -> bytes:
    """Return one server-sent event."""
    body = json.dumps({"type": kind, **more}, separators=(",", ":"))
    return f"event: {kind}\ndata: {body}\n\n".encode()


def failed(error: ApiError) -> bytes:
    """Return the event of an error in a stream."""
    return event("error", error={"type": "internal_error", "message": error.message})
