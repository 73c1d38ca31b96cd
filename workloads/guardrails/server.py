"""The HTTP side: one check, health and metrics.

`POST /v1/check` takes `{"phase": "input", "model": M, "team": T, "messages": [...]}` or, with
`"text"` instead of messages, one text; a message has `role` and `content`. The answer is
`{"action": "allow"}`, `{"action": "block", "rail": R, "message": M}`, or `{"action": "replace"}`
with the same messages or text, masked. A failed check is 500: the caller's own setting decides.
"""

import logging
import time
from dataclasses import dataclass
from typing import Any, cast

from aiohttp import web

from workloads.common import logs

from .metrics import Metrics
from .rails import ALLOW, BLOCK, PHASES, REPLACE, Rails, RailsError, Text, Verdict

_LARGEST_BODY = 64 << 20  # a prompt of 8 MiB grows where its characters are escaped


class BadRequest(Exception):
    """Invalid request for a check; the message is one line: field, rule and value."""


@dataclass(frozen=True)
class Asked:
    """A check."""

    phase: str
    texts: list[Text]
    is_single: bool
    """Whether it has one text instead of messages."""


def application(rails: Rails, metrics: Metrics) -> web.Application:
    """Return the application."""

    async def check(request: web.Request) -> web.StreamResponse:
        began = time.monotonic()
        try:
            asked = parse(await _json(request), rails.phases)
        except BadRequest as error:
            return web.json_response({"error": str(error)}, status=400)
        try:
            verdicts = await rails.check_all(asked.phase, asked.texts)
        except RailsError as error:
            metrics.checks.labels(asked.phase, "failed").inc()
            logs.say(logging.ERROR, str(error))
            return web.json_response({"error": str(error)}, status=500)
        found = answer(asked, verdicts)
        metrics.checks.labels(asked.phase, found["action"]).inc()
        metrics.seconds.labels(asked.phase).observe(time.monotonic() - began)
        return web.json_response(found)

    async def health(_: web.Request) -> web.StreamResponse:
        return web.json_response({"status": "ready", "phases": list(rails.phases)})

    async def page(_: web.Request) -> web.StreamResponse:
        return web.Response(body=metrics.text(), headers={"Content-Type": "text/plain"})

    app = web.Application(client_max_size=_LARGEST_BODY)
    app.router.add_post("/v1/check", check)
    app.router.add_get("/health", health)
    app.router.add_get("/metrics", page)
    return app


async def _json(request: web.Request) -> Any:
    try:
        return await request.json()
    except (ValueError, LookupError):
        raise BadRequest("body: must be JSON") from None


def parse(body: Any, phases: tuple[str, ...]) -> Asked:
    """Return the check that a body requests.

    Raises:
        BadRequest: It asks for none.
    """
    if not isinstance(body, dict):
        raise BadRequest("body: must be an object")
    given = cast("dict[str, Any]", body)
    phase = given.get("phase")
    if phase not in PHASES:
        raise BadRequest(f"phase: must be one of {', '.join(PHASES)}, got {phase!r}")
    if phase not in phases:
        raise BadRequest(f"phase: must be one with rails ({', '.join(phases)}), got {phase!r}")
    if ("text" in given) == ("messages" in given):
        raise BadRequest("text, messages: one of them is required")
    model, team = _string(given, "model", ""), _string(given, "team", "")
    if "text" in given:
        text = Text(_string(given, "text", ""), "", model, team)
        return Asked(str(phase), [text], is_single=True)
    messages = given["messages"]
    if not isinstance(messages, list):
        raise BadRequest("messages: must be a list")
    found: list[Text] = []
    for at, message in enumerate(cast("list[Any]", messages)):
        if not isinstance(message, dict) or "content" not in message:
            raise BadRequest(f"messages[{at}]: must be an object with content")
        one = cast("dict[str, Any]", message)
        found.append(Text(_string(one, "content", ""), _string(one, "role", "user"), model, team))
    return Asked(str(phase), found, is_single=False)


def _string(given: dict[str, Any], field: str, default: str) -> str:
    value = given.get(field, default)
    if not isinstance(value, str):
        raise BadRequest(f"{field}: must be a string, got {type(value).__name__}")
    return value


def answer(asked: Asked, verdicts: list[Verdict]) -> dict[str, Any]:
    """Return the response of a check."""
    last = verdicts[-1] if verdicts else None
    if last is not None and last.action == BLOCK:
        return {"action": BLOCK, "rail": last.rail, "message": last.message}
    if not any(each.action == REPLACE for each in verdicts):
        return {"action": ALLOW}
    if asked.is_single:
        return {"action": REPLACE, "text": verdicts[0].text}
    messages = [
        {"role": text.role, "content": verdict.text}
        for text, verdict in zip(asked.texts, verdicts, strict=True)
    ]
    return {"action": REPLACE, "messages": messages}
