"""The bodies of TGI's OpenAI API: `router/src/lib.rs` and `chat.rs` at v3.3.7."""

import time
from collections.abc import Sequence
from typing import Any

from simulator.dialects.exporting import release
from simulator.dialects.server import GenerationRequest
from simulator.engine.request import FinishReason, Request

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


def _head(kind: str, ask: GenerationRequest) -> Any:
    return {
        "object": kind,
        "id": "",
        "created": int(time.time()),
        "model": ask.model,
        "system_fingerprint": _FINGERPRINT,
    }


def whole_body(kind: str, ask: GenerationRequest, choice: Any, request: Request) -> Any:
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
    """A streamed chat: every event has the role, and the last with text has the finish reason."""

    def __init__(self, ask: GenerationRequest, *, include_usage: bool) -> None:
        self._ask = ask
        self._include_usage = include_usage

    def opening(self) -> list[Any]:
        """Return nothing."""
        return []

    def piece(self, pieces: Sequence[str], request: Request) -> list[Any]:
        """Return the event of some tokens."""
        choice = {
            "index": 0,
            "delta": {"role": "assistant", "content": "".join(pieces)},
            "logprobs": None,
            "finish_reason": reason(self._ask, request, "stop") if request.finished else None,
        }
        return [{**_head("chat.completion.chunk", self._ask), "choices": [choice], "usage": None}]

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
