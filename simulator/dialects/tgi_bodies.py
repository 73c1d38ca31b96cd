"""The bodies of TGI's OpenAI API: `router/src/lib.rs` and `chat.rs` at v3.3.7."""

import time
from collections.abc import Sequence
from typing import Any

from simulator.dialects.exporting import release
from simulator.dialects.forms import CallText
from simulator.dialects.server import GenerationRequest
from simulator.engine.request import FinishReason, Request
from simulator.server.bodies import log_probabilities
from simulator.server.bodies.structured import Form

VERSION = release("tgi")
_FINGERPRINT = f"{VERSION}-native"


def reason(ask: GenerationRequest, request: Request, ended: str) -> str:
    """Return TGI's finish reason; `ended` is the one for a text that ends by itself."""
    if request.finished is FinishReason.LENGTH:
        return "length"
    return "stop_sequence" if ask.stopped_by else ended


def usage(ask: GenerationRequest, generated: int) -> Any:
    """Return the usage block."""
    prompt = len(ask.prompt)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": generated,
        "total_tokens": prompt + generated,
    }


def likely(ask: GenerationRequest, pieces: Sequence[str]) -> Any:
    """Return `ChatCompletionLogprobs`, which has no bytes; None if not requested."""
    if ask.logprobs is None:
        return None
    return {
        "content": [
            {
                "token": each["token"],
                "logprob": each["logprob"],
                "top_logprobs": [
                    {name: top[name] for name in ("token", "logprob")}
                    for top in each["top_logprobs"]
                ],
            }
            for each in log_probabilities.of_text(ask.likely(pieces), ask.logprobs)
        ]
    }


def _head(kind: str, ask: GenerationRequest) -> Any:
    return {
        "object": kind,
        "id": "",
        "created": int(time.time()),
        "model": ask.model,
        "system_fingerprint": _FINGERPRINT,
    }


def body(kind: str, ask: GenerationRequest, choice: Any, request: Request) -> Any:
    """Return a response that is not streamed."""
    return {**_head(kind, ask), "choices": [choice], "usage": usage(ask, request.generated)}


def timings(request: Request) -> dict[str, str]:
    """Return the headers with times in milliseconds and token counts."""
    last = request.last_token or request.arrival
    begun = request.first_scheduled or request.arrival
    inference = last - begun
    found = {
        "x-compute-type": "gpu",
        "x-total-time": round((last - request.arrival) * 1e3),
        "x-validation-time": 0,
        "x-queue-time": round((begun - request.arrival) * 1e3),
        "x-inference-time": round(inference * 1e3),
        "x-time-per-token": round(inference * 1e3 / max(1, request.generated)),
        "x-prompt-tokens": len(request.prompt),
        "x-generated-tokens": request.generated,
    }
    return {name: str(value) for name, value in found.items()}


class ChatEvents:
    """A streamed chat: every event has the role, and the last with text has the finish reason.

    Args:
        ask: the request.
        call: ID of a call of a tool.
        include_usage: whether the last event has the usage.
    """

    def __init__(self, ask: GenerationRequest, call: str, *, include_usage: bool) -> None:
        self._ask = ask
        self._call = call
        self._include_usage = include_usage
        self._text: CallText | None = None
        self._is_called = False

    def opening(self) -> list[Any]:
        """Return nothing."""
        return []

    def piece(self, pieces: Sequence[str], request: Request) -> list[Any]:
        """Return the event of some tokens, or those of a call."""
        found = reason(self._ask, request, "stop") if request.finished else None
        form = self._ask.form
        if form is None or form.tool is None:
            return [self._event({"content": "".join(pieces)}, pieces, found)]
        made = [self._called(form, piece) for piece in pieces]
        return [
            self._event(delta, [piece], found if at == len(pieces) - 1 else None)
            for at, (piece, delta) in enumerate(zip(pieces, made, strict=True))
            if delta is not None
        ]

    def _called(self, form: Form, piece: str) -> Any:
        """Return the delta of a token of a call; None before its name is complete."""
        self._text = self._text or CallText(form)
        arguments = self._text.arguments(piece)
        if not self._text.is_named:
            return None
        name = None if self._is_called else form.tool
        function = {"name": name, "arguments": arguments if self._is_called else "{"}
        self._is_called = True
        call = {"index": 0, "id": self._call, "type": "function", "function": function}
        return {"tool_calls": [call]}

    def _event(self, delta: Any, pieces: Sequence[str], found: str | None) -> Any:
        choice = {
            "index": 0,
            "delta": {"role": "assistant", **delta},
            "logprobs": likely(self._ask, pieces),
            "finish_reason": found,
        }
        return {**_head("chat.completion.chunk", self._ask), "choices": [choice], "usage": None}

    def closing(self, request: Request) -> list[Any]:
        """Return nothing."""
        return []

    def ending(self, requests: Sequence[Request]) -> list[Any]:
        """Return the usage if requested."""
        if not self._include_usage:
            return []
        found = usage(self._ask, requests[0].generated)
        return [{**_head("chat.completion.chunk", self._ask), "choices": [], "usage": found}]


class CompletionEvents:
    """A streamed completion; its last event has the finish reason and the usage."""

    def __init__(self, ask: GenerationRequest) -> None:
        self._ask = ask

    def opening(self) -> list[Any]:
        """Return nothing."""
        return []

    def piece(self, pieces: Sequence[str], request: Request) -> list[Any]:
        """Return the event of some tokens."""
        is_last = request.finished is not None
        found = reason(self._ask, request, "eos_token") if is_last else ""
        choice: Any = {"index": 0, "text": "".join(pieces), "logprobs": None}
        choice["finish_reason"] = found
        event = {**_head("text_completion", self._ask), "choices": [choice]}
        return [event | ({"usage": usage(self._ask, request.generated)} if is_last else {})]

    def ending(self, requests: Sequence[Request]) -> list[Any]:
        """Return nothing."""
        return []

    def closing(self, request: Request) -> list[Any]:
        """Return nothing."""
        return []
