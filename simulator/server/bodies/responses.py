"""The bodies of vLLM's Responses API (`/v1/responses`), without a store of responses.

vLLM turns a request into a chat and the chat's answer into items; so does this module. The forms
are those of vLLM 0.32.0 (docs/real-engine.md).
"""

import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from simulator.server.bodies import log_probabilities
from simulator.server.bodies.asks import CompletionRequest
from simulator.server.bodies.errors import ApiError

Json = dict[str, Any]
_INCLUDE_LOGPROBS = "message.output_text.logprobs"


def chat_of(body: Json, longest: int, *, has_tool_parser: bool) -> Json:
    """Return the chat that a request of the Responses API becomes.

    Args:
        body: validated body (`fields.VllmResponse`).
        longest: value of `--max-model-len`.
        has_tool_parser: whether the server finds calls in the text of the model.

    Raises:
        ApiError: the request needs stored responses, or asks for more than the context.
    """
    if body.get("background"):
        raise _refused(
            "This vLLM engine does not support `store=True` and therefore does not support the "
            "background mode. To enable these features, set the environment variable "
            "`VLLM_ENABLE_RESPONSES_API_STORE=1` when launching the vLLM server.",
            "background",
        )
    previous = body.get("previous_response_id")
    if previous is not None:
        raise unknown_response(str(previous))
    most = body.get("max_output_tokens")
    if most is not None and most > longest:
        said = (
            f"max_output_tokens={most} cannot be greater than max_model_len={longest}. Please "
            f"request fewer output tokens. (parameter=max_output_tokens, value={most})"
        )
        raise ApiError(400, said, param="max_output_tokens")
    chat: Json = {
        "messages": _messages(body),
        "max_tokens": most,
        "temperature": body.get("temperature"),
        "top_p": body.get("top_p"),
        "stream": body.get("stream"),
        "priority": body.get("priority"),
        "cache_salt": body.get("cache_salt"),
        "ignore_eos": body.get("ignore_eos"),
        "response_format": _format(body),
    }
    if _INCLUDE_LOGPROBS in (body.get("include") or []):
        chat |= {"logprobs": True, "top_logprobs": body.get("top_logprobs") or 0}
    if body.get("tool_choice") == "required" and not _tools(body):
        said = "Tool choice 'required' must be specified with 'tools' parameter."
        raise ApiError(400, f"{said} (parameter=tool_choice)", param="tool_choice")
    functions = [_function(tool) for tool in _tools(body) if tool["type"] == "function"]
    if functions and has_tool_parser:  # without one, vLLM leaves the call in the text
        choice: Any = body.get("tool_choice")
        if isinstance(choice, dict):
            choice = {"type": "function", "function": {"name": cast(Json, choice).get("name")}}
        chat |= {"tools": functions, "tool_choice": choice}
    return {name: value for name, value in chat.items() if value is not None}


def _tools(body: Json) -> list[Json]:
    return body.get("tools") or []


def _messages(body: Json) -> list[Json]:
    messages: list[Json] = []
    if body.get("instructions"):
        messages.append({"role": "system", "content": body["instructions"]})
    given = body["input"]
    if isinstance(given, str):
        return [*messages, {"role": "user", "content": given}]
    for item in cast(list[Json], given):
        kind = item.get("type")
        if kind == "function_call":
            said = f"{item.get('name')}({item.get('arguments')})"
            messages.append({"role": "assistant", "content": said})
        elif kind == "function_call_output":
            messages.append({"role": "tool", "content": str(item.get("output"))})
        elif kind in (None, "message"):
            messages.append({"role": item.get("role"), "content": item.get("content")})
        elif kind != "reasoning":
            said = f"an item of type {kind!r} is not available on a simulated engine."
            raise _refused(said, "input")
    if not given:
        raise ApiError(
            400,
            "Cannot apply chat template to an empty conversation. Provide at least one message.",
        )
    return messages


def _format(body: Json) -> Json | None:
    text: Json = body.get("text") or {}
    wanted: Json = text.get("format") or {}
    if wanted.get("type") == "json_schema":
        schema = {"name": wanted.get("name"), "schema": wanted.get("schema")}
        return {"type": "json_schema", "json_schema": schema}
    return {"type": wanted["type"]} if wanted.get("type") else None


def _function(tool: Json) -> Json:
    """Return a tool as chats have it."""
    wanted = {name: tool[name] for name in ("name", "description", "parameters") if name in tool}
    return {"type": "function", "function": wanted}


def _refused(message: str, param: str) -> ApiError:
    return ApiError(400, message, param=param, kind="invalid_request_error")


def unknown_response(name: str) -> ApiError:
    """Return vLLM's error for a response that it has not stored."""
    said = f"Response with id '{name}' not found."
    return ApiError(404, said, param="response_id", kind="invalid_request_error")


@dataclass
class ResponseWriter:
    """A writer of the bodies of one response."""

    body: Json
    """The validated body of the request."""
    ask: CompletionRequest
    id: str = field(default_factory=lambda: f"resp_{uuid.uuid4().hex[:16]}")
    item_id: str = field(default_factory=lambda: uuid.uuid4().hex[:16])
    created: int = field(default_factory=lambda: int(time.time()))
    _sequence: int = 0

    def whole(self, status: str, generated: int, cached: int) -> Json:
        """Return the response.

        Args:
            status: `in_progress`, or why it ended: `stop` or `length`.
            generated: number of tokens of the response.
            cached: number of tokens of the prompt that were in the cache.
        """
        body = self.body
        is_cut = status == "length"
        is_over = status != "in_progress"
        tools = [_shown(tool) for tool in _tools(body)]
        return {
            "id": self.id,
            "created_at": self.created,
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "instructions": body.get("instructions"),
            "metadata": body.get("metadata"),
            "model": self.ask.model,
            "object": "response",
            "output": [self._item(generated)] if is_over else [],
            "parallel_tool_calls": body.get("parallel_tool_calls", True),
            "temperature": body.get("temperature", 1.0),
            "tool_choice": body.get("tool_choice", "auto") if tools else "none",
            "tools": tools,
            "top_p": body.get("top_p", 1.0),
            "background": False,
            "max_output_tokens": self.ask.max_tokens,
            "max_tool_calls": body.get("max_tool_calls"),
            "previous_response_id": None,
            "prompt": None,
            "reasoning": _reasoning(body),
            "service_tier": "auto",
            "status": ("incomplete" if is_cut else "completed") if is_over else status,
            "text": _shown_text(body),
            "top_logprobs": body.get("top_logprobs"),
            "truncation": body.get("truncation", "disabled"),
            "usage": self._usage(generated, cached) if is_over else None,
            "user": body.get("user"),
            "presence_penalty": body.get("presence_penalty") or 0.0,
            "frequency_penalty": body.get("frequency_penalty") or 0.0,
            "kv_transfer_params": None,
            "ec_transfer_params": None,
            "input_messages": None,
            "output_messages": None,
        }

    def _usage(self, generated: int, cached: int) -> Json:
        prompt = len(self.ask.prompt)
        return {
            "input_tokens": prompt,
            "input_tokens_details": {
                "cached_tokens": cached,
                "cache_write_tokens": 0,
                "input_tokens_per_turn": [],
                "cached_tokens_per_turn": [],
            },
            "output_tokens": generated,
            "output_tokens_details": {
                "reasoning_tokens": 0,
                "tool_output_tokens": 0,
                "output_tokens_per_turn": [],
                "tool_output_tokens_per_turn": [],
            },
            "total_tokens": prompt + generated,
        }

    @property
    def _tool(self) -> str | None:
        return self.ask.form.tool if self.ask.form is not None else None

    def _said(self, generated: int) -> str:
        return "".join(self.ask.output[:generated])

    def _probable(self, start: int, end: int) -> list[Json] | None:
        count = self.ask.details.logprobs
        if count is None:
            return None
        found = log_probabilities.positions(self.ask.output[start:end], count)
        return log_probabilities.of_text(found, count)

    def _text(self, generated: int) -> Json:
        return {
            "annotations": [],
            "text": self._said(generated),
            "type": "output_text",
            "logprobs": self._probable(0, generated),
        }

    def _item(self, generated: int) -> Json:
        if self._tool is not None:
            return self._call(self._said(generated), "completed")
        return self._message([self._text(generated)], "completed")

    def _message(self, content: list[Json], status: str) -> Json:
        return {
            "id": f"msg_{self.item_id}",
            "content": content,
            "role": "assistant",
            "status": status,
            "type": "message",
            "phase": None,
        }

    def _call(self, arguments: str, status: str) -> Json:
        return {
            "arguments": arguments,
            "call_id": f"chatcmpl-tool-{self.item_id}",
            "name": self._tool,
            "type": "function_call",
            "id": f"fc_{self.item_id}",
            "async": None,
            "caller": None,
            "namespace": None,
            "status": status,
        }

    def beginning(self) -> Iterator[bytes]:
        """Yield the events before the first token."""
        for kind in ("created", "in_progress"):
            yield self._event(f"response.{kind}", response=self.whole("in_progress", 0, 0))
        is_call = self._tool is not None
        item = self._call("", "in_progress") if is_call else self._message([], "in_progress")
        yield self._event("response.output_item.added", item=item, output_index=0)
        if not is_call:
            part: Json = {"annotations": [], "text": "", "type": "output_text", "logprobs": []}
            yield self._part("response.content_part.added", part=part)

    def delta(self, sent: int, generated: int) -> bytes:
        """Return the event with the tokens from `sent` up to `generated`."""
        said = "".join(self.ask.output[sent:generated])
        if self._tool is not None:
            return self._arguments("delta", delta=said)
        probable = self._probable(sent, generated) or []
        return self._part("response.output_text.delta", delta=said, logprobs=probable)

    def end(self, status: str, generated: int, cached: int) -> Iterator[bytes]:
        """Yield the events after the last token; the arguments are those of `whole`."""
        if self._tool is not None:
            yield self._arguments("done", arguments=self._said(generated), name=self._tool)
        else:
            said: Json = {"text": self._said(generated), "logprobs": []}
            yield self._part("response.output_text.done", **said)
            yield self._part("response.content_part.done", part=self._text(generated))
        item = self._item(generated)
        yield self._event("response.output_item.done", item=item, output_index=0)
        yield self._event("response.completed", response=self.whole(status, generated, cached))

    def _arguments(self, kind: str, **more: Any) -> bytes:
        where = {"item_id": f"fc_{self.item_id}", "output_index": 0}
        return self._event(f"response.function_call_arguments.{kind}", **where, **more)

    def _part(self, kind: str, **more: Any) -> bytes:
        where = {"content_index": 0, "item_id": f"msg_{self.item_id}", "output_index": 0}
        return self._event(kind, **where, **more)

    def _event(self, kind: str, **more: Any) -> bytes:
        body = {**more, "sequence_number": self._sequence, "type": kind}
        self._sequence += 1
        return f"event: {kind}\ndata: {json.dumps(body, separators=(',', ':'))}\n\n".encode()


_TOOL = dict.fromkeys(
    ("strict", "allowed_callers", "async", "defer_loading", "description", "output_schema")
)
_REASONING = dict.fromkeys(("context", "effort", "generate_summary", "mode", "summary"))


def _shown(tool: Json) -> Json:
    return {"name": tool.get("name"), "parameters": tool.get("parameters"), **_TOOL, **tool}


def _reasoning(body: Json) -> Json | None:
    given: Json | None = body.get("reasoning")
    return None if given is None else {**_REASONING, **given}


def _shown_text(body: Json) -> Json | None:
    given: Json | None = body.get("text")
    if given is None:
        return None
    wanted: Json = given.get("format") or {}
    if wanted.get("type") == "json_schema":
        wanted = {"description": None, "strict": None, **wanted}
    return {"verbosity": None, **given, "format": wanted or None}
