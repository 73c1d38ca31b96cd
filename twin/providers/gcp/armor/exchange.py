"""A request and its response, as a load balancer sends them to Model Armor.

A prompt is held until it is inspected. A response is held as a whole, and an event stream in
windows: clean windows pass, and a match ends the stream (rule modelarmor.stream).
"""

import json
from collections.abc import Iterator
from typing import Any, Final, cast

from twin.providers.gcp.armor import verdicts
from twin.wire import ext_proc
from twin.wire import ext_proc_messages as messages
from twin.wire.property_values import CloudError
from twin.world.rules import all_rules
from twin.world.store import Record, Store

_SETTINGS: Final = "model_armor_settings"
_EVENTS: Final = "text/event-stream"
_DONE: Final = b"data: [DONE]\n\n"


class Exchange:
    """The state of one request."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._settings: list[dict[str, str]] = []
        self._body = b""
        self._prompt: Record | None = None
        self._response: Record | None = None
        self._answer = b""
        self._status = 200
        self._is_stream = False
        self._holds = False
        self._text = ""
        self._unseen = ""
        self._ended = False

    def answers(self, request: Any) -> Iterator[Any]:
        """Yield the responses to a message.

        Raises:
            CloudError: A template does not exist, or the agent may not use it.
        """
        event = ext_proc.event_of(request)
        part = getattr(request, event)
        if event == "request_headers":
            self._settings = _settings(messages.metadata_of(request))
            if part.end_of_stream:
                yield messages.go_on(event)
        elif event == "request_body":
            self._body += part.body
            if part.end_of_stream:
                yield from self._on_prompt(ends=True)
        elif event == "request_trailers":
            yield from self._on_prompt(ends=False)
            yield messages.go_on(event)
        elif event == "response_headers":
            yield from self._on_headers(event, part)
        elif event == "response_body":
            yield from self._on_answer(part.body, ends=part.end_of_stream)
        else:
            yield from self._on_answer(b"", ends=False, is_last=True)
            yield messages.go_on(event)

    def _on_prompt(self, *, ends: bool) -> Iterator[Any]:
        body, self._body = self._body, b""
        asked = _object(body)
        chosen = _chosen(self._settings, str(asked.get("model", "")))
        self._prompt = self._template(chosen, "user_prompt_template_id")
        self._response = self._template(chosen, "model_response_template_id")
        if self._prompt is not None:
            result = verdicts.sanitize(self._prompt, _prompt_text(asked), is_prompt=True)
            if verdicts.is_blocked(self._prompt, result):
                yield _refusal(self._prompt, is_prompt=True)
                return
        yield messages.go_on("request_headers")
        yield from messages.body_of("request_body", body, end=ends)

    def _template(self, chosen: dict[str, str], field: str) -> Record | None:
        name = chosen.get(field)
        if not name:
            return None
        verdicts.check_callable(self._store, name)
        return verdicts.template_of(self._store, name)

    def _on_headers(self, event: str, part: Any) -> Iterator[Any]:
        headers = messages.headers_of(part)
        self._status = int(headers.get(":status", "200"))
        looks = self._response is not None and self._status == 200 and not part.end_of_stream
        self._is_stream = looks and headers.get("content-type", "").startswith(_EVENTS)
        self._holds = looks and not self._is_stream
        if not self._holds:
            yield messages.go_on(event, drops_length=self._is_stream)

    def _on_answer(self, piece: bytes, *, ends: bool, is_last: bool = False) -> Iterator[Any]:
        self._answer += piece
        template = self._response
        if template is None or not (self._holds or self._is_stream):
            out, self._answer = self._answer, b""
            yield from messages.body_of("response_body", out, end=ends)
            return
        if self._is_stream:
            yield from messages.body_of(
                "response_body", self._window(template, is_last=ends or is_last), end=ends
            )
            return
        if not (ends or is_last):
            return
        text = _answer_text(_object(self._answer))
        if verdicts.is_blocked(template, verdicts.sanitize(template, text, is_prompt=False)):
            yield _refusal(template, is_prompt=False)
            return
        yield messages.go_on("response_headers")
        yield from messages.body_of("response_body", self._answer, end=ends)

    def _window(self, template: Record, *, is_last: bool) -> bytes:
        """Return the events that can pass: those in clean windows."""
        if self._ended:
            self._answer = b""
            return b""
        size = int(all_rules()["modelarmor.stream"].value)
        out, window, length = b"", b"", 0
        *whole, rest = self._answer.split(b"\n\n")
        if is_last and rest:  # an event whose blank line never came
            whole, rest = [*whole, rest], b""
        for at, event in enumerate(whole):
            window, text = window + event + b"\n\n", _event_text(event)
            length += len(text)
            self._unseen += text
            if length < size and not (is_last and at == len(whole) - 1):
                continue
            self._text = (self._text + self._unseen)[-4 * size :]
            self._unseen = ""
            result = verdicts.sanitize(template, self._text, is_prompt=False)
            if verdicts.is_blocked(template, result):
                self._ended, self._answer = True, b""
                body = _error(*verdicts.refusal(template, is_prompt=False))
                return out + b"data: " + body + b"\n\n" + _DONE
            out, window, length = out + window, b"", 0
        self._unseen, self._answer = "", window + rest  # read again with what comes
        return out


def _settings(metadata: dict[str, str]) -> list[dict[str, str]]:
    try:
        found = json.loads(metadata.get(_SETTINGS, ""))
    except ValueError:
        found = None
    if not isinstance(found, list):
        raise CloudError(400, f"{_SETTINGS}: must be a JSON list", "INVALID_ARGUMENT")
    return [dict(cast("dict[str, str]", one)) for one in cast("list[Any]", found)]


def _chosen(settings: list[dict[str, str]], model: str) -> dict[str, str]:
    """Return the entry of a model or `default`; empty if there is neither."""
    by_model = {one.get("model", ""): one for one in settings}
    return by_model.get(model) or by_model.get("default") or {}


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body or b"{}")
    except ValueError:
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _strings(value: Any) -> Iterator[str]:
    """Yield texts from strings, parts, and lists of these."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _strings(item)
    elif isinstance(value, dict):
        parts = cast("dict[str, Any]", value)
        yield from _strings(parts.get("content") or parts.get("text"))


def _prompt_text(asked: dict[str, Any]) -> str:
    fields = ("messages", "prompt", "input", "instructions", "system")
    return "\n".join(text for field in fields for text in _strings(asked.get(field)))


def _answer_text(answer: dict[str, Any]) -> str:
    choices = cast("list[dict[str, Any]]", answer.get("choices") or [])
    texts = [text for one in choices for text in _strings(one.get("message") or one.get("text"))]
    texts += _strings(answer.get("output"))
    return "\n".join([*texts, *_strings(answer.get("content"))])


def _event_text(event: bytes) -> str:
    data = event.removeprefix(b"data:").strip()
    choices = cast("list[dict[str, Any]]", _object(data).get("choices") or [])
    return "".join(t for one in choices for t in _strings(one.get("delta") or one.get("text")))


def _error(code: int, message: str) -> bytes:
    """Return the body for a blocked request (rule modelarmor.refusal)."""
    status = {400: "INVALID_ARGUMENT", 403: "PERMISSION_DENIED"}.get(code, "FAILED_PRECONDITION")
    return json.dumps({"error": {"code": code, "message": message, "status": status}}).encode()


def _refusal(template: Record, *, is_prompt: bool) -> Any:
    code, message = verdicts.refusal(template, is_prompt=is_prompt)
    return messages.refuse(code, _error(code, message))
