"""Sends one request of a batch to a model until there is an answer or retries are pointless."""

import asyncio
import json
import logging
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import aiohttp

from workloads.stream.asking import retry_after
from workloads.stream.pressure import Pressure

from .answers import Answer, answered, unanswered
from .bucket import reason
from .logs import say
from .settings import Settings

_BUSY: Final = (429, 503)
_MAY_PASS: Final = (408, 409, 425)
"""Statuses below 500 that another attempt may help."""
_AWAY: Final = (0, 502)
"""No response, or a proxy that got none."""
_REJECTED_KEY: Final = (401, 403)
"""Somebody must fix the key; until then, no request is at fault."""
_SPENT: Final = "insufficient_quota"
"""Code of a quota that a new month or a larger limit restores: no request is at fault."""
_CONNECT_SECONDS: Final = 5.0


class Stopped(Exception):
    """The request was abandoned because its batch ends or the worker stops."""


@dataclass(frozen=True)
class Question:
    """One request of a batch."""

    batch: str
    number: int
    custom_id: str
    url: str
    body: Mapping[str, Any]


@dataclass(frozen=True)
class _Said:
    """A response, with status 0 if there was none and -1 if the connection broke."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Asking:
    """Sends requests to the gateway, more slowly when it is busy.

    A pool that is busy or away costs a request no attempt: it is waited for as long as the batch
    lasts. What breaks or fails in the middle costs one, as the request may be the cause.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        settings: Settings,
        pressure: Pressure,
        retried: Callable[[str], None],
    ) -> None:
        self._session = session
        self._settings = settings
        self._endpoint = settings.endpoint.rstrip("/")
        self._pressure = pressure
        self._key_file = Path(settings.key_file) if settings.key_file else None
        self._retried = retried

    async def ask(self, question: Question, until: float, stop: asyncio.Event) -> Answer:
        """Return the answer to a request; the caller has entered `pressure` once.

        Args:
            question: Request to send.
            until: Seconds since the epoch, after which there is no further attempt.
            stop: Ends waiting for another attempt; one that runs ends by itself.

        Raises:
            Stopped: `until` passed or `stop` was set first.
        """
        failures = waits = 0
        while True:
            try:
                said = await self._send(question)
                if said.status == 200:
                    self._pressure.answered()  # while it counts as running
            finally:
                await self._pressure.leave()
            status = said.status
            if not _is_repeated(said):
                return _answer(question, said)
            after = self._asked_wait(said)
            if status in _BUSY:
                self._pressure.refused(after)
            if status not in (*_BUSY, *_AWAY, *_REJECTED_KEY):
                failures += 1
            if failures >= self._settings.attempts:
                return _answer(question, said)
            waits += 1
            self._retried(_word(status))
            await self._wait(after or self._backoff(waits), until, stop)
            await self._enter(until, stop)

    async def _wait(self, seconds: float, until: float, stop: asyncio.Event) -> None:
        if time.time() + seconds >= until:
            seconds = max(0.0, until - time.time())
        try:
            await asyncio.wait_for(stop.wait(), seconds)
        except TimeoutError:
            if time.time() >= until:
                raise Stopped from None
            return
        raise Stopped

    async def _enter(self, until: float, stop: asyncio.Event) -> None:
        """Wait for capacity, but no longer than necessary."""
        entering = asyncio.create_task(self._pressure.enter())
        stopping = asyncio.create_task(stop.wait())
        left = max(until - time.time(), 0.001)
        await asyncio.wait({entering, stopping}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if entering.done():
            return
        entering.cancel()
        try:
            await entering
        except asyncio.CancelledError:
            raise Stopped from None

    async def enter(self, until: float, stop: asyncio.Event) -> None:
        """Wait until a first attempt may start.

        Raises:
            Stopped: `until` passed or `stop` was set first.
        """
        if stop.is_set() or time.time() >= until:
            raise Stopped
        await self._enter(until, stop)

    async def _send(self, question: Question) -> _Said:
        request = f"{question.batch}-{question.number}"
        headers = {"x-request-id": request}
        model = self._settings.models.get(str(question.body.get("model")))
        if model is not None and model.objective:
            headers["x-gateway-inference-objective"] = model.objective
        if self._key_file is not None:
            key = self._key(self._key_file)
            if not key:
                return _Said(401, {}, b"")
            headers["authorization"] = f"Bearer {key}"
        timeout = aiohttp.ClientTimeout(
            total=self._settings.deadline_seconds, sock_connect=_CONNECT_SECONDS
        )
        try:
            async with self._session.post(
                self._endpoint + question.url, json=question.body, headers=headers, timeout=timeout
            ) as response:
                named = {name.lower(): value for name, value in response.headers.items()}
                return _Said(response.status, named, await response.read())
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            return _Said(0, {}, b"")
        except (aiohttp.ClientError, TimeoutError):
            return _Said(-1, {}, b"")
        except Exception as error:  # noqa: BLE001 - of one request: the others go on
            say(logging.WARNING, "attempt failed", request=request, why=reason(error))
            return _Said(-1, {}, b"")

    def _key(self, file: Path) -> str:
        """Return the key; empty if there is none that can be sent."""
        try:
            key = file.read_text().strip()
        except (OSError, ValueError) as error:
            say(logging.WARNING, "no key", why=reason(error))
            return ""
        return key if key.isascii() and key.isprintable() else ""

    def _asked_wait(self, said: _Said) -> float | None:
        """Return the requested wait in seconds, bounded: a quota can request weeks."""
        after = retry_after(said.headers.get("retry-after"), time.time())
        return None if after is None else min(after, self._settings.longest_wait_seconds)

    def _backoff(self, waits: int) -> float:
        settings = self._settings
        most = min(
            settings.longest_wait_seconds, settings.first_wait_seconds * 2 ** min(waits - 1, 20)
        )
        return random.uniform(most / 2, most)  # noqa: S311 - it spreads attempts


def _is_repeated(said: _Said) -> bool:
    """Return whether another attempt may have another result."""
    status = said.status
    if said.headers.get("x-should-retry") == "false" and _code(said.body) != _SPENT:
        return False
    if status >= 500 or status <= 0:
        return True
    return status in (*_BUSY, *_MAY_PASS, *_REJECTED_KEY)


def _code(body: bytes) -> str:
    """Return the code of an error in OpenAI's format; empty if there is none."""
    try:
        return str(json.loads(body)["error"]["code"])
    except (ValueError, RecursionError, LookupError, TypeError):
        return ""


def _answer(question: Question, said: _Said) -> Answer:
    if said.status <= 0:
        message = "The connection broke or the answer took too long, at each attempt."
        return unanswered(
            question.number, question.batch, question.custom_id, "server_error", message
        )
    try:
        return _with_body(question, said, json.loads(said.body))
    except (ValueError, RecursionError):
        body = {"error": {"message": "The answer was not JSON.", "type": "server_error"}}
        # what no client could read is no success
        status = 500 if 200 <= said.status < 300 else said.status
        return _with_body(question, replace(said, status=status), body)


def _with_body(question: Question, said: _Said, body: Any) -> Answer:
    response = {
        "status_code": said.status,
        "request_id": said.headers.get("x-request-id", f"{question.batch}-{question.number}"),
        "body": body,
    }
    return answered(question.number, question.batch, question.custom_id, response)


def _word(status: int) -> str:
    words: dict[int, str] = {0: "unreachable", -1: "connection-lost"}
    return words.get(status, str(status))
