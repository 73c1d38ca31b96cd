"""The bodies of completions and chats: whole, and as events of a stream."""

import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from simulator.server.bodies import log_probabilities, shapes
from simulator.server.bodies.asks import CompletionRequest

Json = dict[str, Any]


@dataclass
class Answer:
    """A writer of the bodies of one response."""

    ask: CompletionRequest
    id: str
    created: int
    include_details: bool = False
    call: str = field(default_factory=lambda: f"chatcmpl-tool-{uuid.uuid4().hex}")
    """ID of the tool call."""

    @property
    def tool(self) -> str | None:
        """Name of the called tool."""
        return self.ask.form.tool if self.ask.form is not None else None

    def _reason(self, reason: str) -> str:
        form = self.ask.form
        is_call = form is not None and form.is_required and reason == "stop"
        return "tool_calls" if is_call else reason

    @classmethod
    def to(cls, asks: list[CompletionRequest], *, include_details: bool) -> "list[Answer]":
        """Return a new response per choice of a request, all with the same new ID."""
        prefix = "chatcmpl-" if asks[0].chat else "cmpl-"
        name, now = prefix + uuid.uuid4().hex, int(time.time())
        return [cls(ask, name, now, include_details) for ask in asks]

    def _head(self, kind: str) -> Json:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.ask.model}

    def usage(self, generated: int, cached: int, prompt: int | None = None) -> Json:
        """Return the usage block; `prompt` is the number of tokens of all prompts, if several."""
        if prompt is None:
            prompt = len(self.ask.prompt)
        return {
            "prompt_tokens": prompt,
            "total_tokens": prompt + generated,
            "completion_tokens": generated,
            "prompt_tokens_details": {"cached_tokens": cached} if self.include_details else None,
            "completion_tokens_details": None,
        }

    def usage_so_far(self, generated: int) -> Json:
        """Return the usage of an event: that of its own choice (`continuous_usage_stats`)."""
        return {name: n for name, n in self.usage(generated, 0).items() if isinstance(n, int)}

    def beginning(self, *, is_counting: bool) -> list[Json]:
        """Return the events before the first text, which vLLM sends with the first token.

        Args:
            is_counting: whether they have the usage so far.
        """
        usage = self.usage_so_far(0) if is_counting else None
        made = [self.chunk(None, usage=usage)] if self.ask.chat else []
        return made if self.tool is None else [*made, self.calling()]

    def whole(self, generated: int, reason: str, cached: int) -> Json:
        """Return the body of a response that is not streamed."""
        pieces = self.ask.output[:generated]
        body = self.echoed() + "".join(pieces)
        choice: Json = {
            "index": self.ask.index,
            "logprobs": self.log_probabilities(pieces, begins=True),
            "finish_reason": self._reason(reason),
        }
        choice |= shapes.CHAT_CHOICE if self.ask.chat else shapes.COMPLETION_CHOICE
        judged = self._judged_prompt()
        if not self.ask.chat:
            choice["prompt_logprobs"] = judged
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
            **({**shapes.CHAT, "prompt_logprobs": judged} if self.ask.chat else shapes.COMPLETION),
        }

    def echoed(self) -> str:
        """Return the prompt, if the text of the choice begins with it."""
        is_repeated = self.ask.details.echo and not self.ask.chat
        return "".join(self.ask.prompt_pieces) if is_repeated else ""

    def _judged_prompt(self) -> list[Json | None] | None:
        count = self.ask.details.prompt_logprobs
        if count is None:
            return None
        found = log_probabilities.positions(self.ask.prompt_pieces, count)
        return log_probabilities.of_prompt([None, *found[1:]])

    def log_probabilities(
        self, pieces: list[str], *, begins: bool, before: str = ""
    ) -> Json | None:
        """Return the log probabilities of a part of the text.

        Args:
            pieces: tokens of the part.
            begins: whether it is the first part, which has the prompt's if that is repeated.
            before: text of the choice before the part.
        """
        count = self.ask.details.logprobs
        if count is None:
            return None
        said = [piece for piece in pieces if piece]
        if self.ask.chat:
            positions = log_probabilities.positions(said, count)
            return {"content": log_probabilities.of_text(positions, count)}
        repeated = self.ask.prompt_pieces if begins and self.ask.details.echo else []
        found: list[log_probabilities.Position | None] = [
            *log_probabilities.positions(repeated, count),
            *log_probabilities.positions(said, count),
        ]
        if repeated:
            found[0] = None
        return log_probabilities.of_completion(found, [*repeated, *said], len(before))

    def part(
        self, sent: int, generated: int, reason: str | None, usage: Json | None = None
    ) -> Json:
        """Return the event of a stream with the tokens from `sent` up to `generated`.

        The first one repeats the prompt if the request asked for it.
        """
        pieces = self.ask.output[sent:generated]
        repeated = self.echoed()
        before = repeated + "".join(self.ask.output[:sent]) if sent else ""
        probable = self.log_probabilities(pieces, begins=not sent, before=before)
        text = ("" if sent else repeated) + "".join(pieces)
        body = self.chunk(text, reason, usage, probable)
        if repeated and not sent:
            body["choices"][0]["prompt_token_ids"] = self.ask.prompt
        return body

    def chunk(
        self,
        piece: str | None,
        reason: str | None = None,
        usage: Json | None = None,
        probable: Json | None = None,
    ) -> Json:
        """Return an event of a stream; `piece` None is the first of a chat, with the role."""
        choice: Json = {
            "index": self.ask.index,
            "logprobs": probable,
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
        """Return the event of a stream that names the called tool."""
        body = self.chunk("")
        (part,) = body["choices"][0]["delta"]["tool_calls"]
        part |= {"id": self.call, "type": "function"}
        part["function"]["name"] = self.tool
        return body

    def usage_event(self, generated: int, cached: int, prompt: int) -> Json:
        """Return the last event of a stream with requested usage."""
        kind = "chat.completion.chunk" if self.ask.chat else "text_completion"
        known = {k: v for k, v in self.usage(generated, cached, prompt).items() if v is not None}
        last = {"system_fingerprint": shapes.fingerprint()}
        return {**self._head(kind), "choices": [], "usage": known, **last}


def event(body: Json) -> bytes:
    """Return a body as one server-sent event."""
    return b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"


def plain_chunk(answer: Answer) -> Callable[[str], bytes]:
    """Return a writer for the text-only chunks of one response.

    Nearly all chunks are of this kind, and differ only in their text.
    """
    mark = "\x00piece\x00"
    before, after = event(answer.chunk(mark)).split(json.dumps(mark).encode())
    return lambda piece: before + json.dumps(piece).encode() + after
