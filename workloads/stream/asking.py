"""Sends one message to the model until an answer, a permanent failure, or the deadline."""

import asyncio
import email.utils
import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from .messages import Poison, Request
from .pressure import Pressure

_BUSY: Final = (429, 503)
_MAY_PASS: Final = (408, 409, 425)
"""Statuses below 500 that another attempt may help."""
_AWAY: Final = (0, 502)
"""No response, or a proxy that got none."""
_REJECTED_KEY: Final = (401, 403)
"""Somebody has to fix the key; meanwhile no message is at fault."""
_CONNECT_SECONDS: Final = 5.0


class Unanswered(Exception):
    """The time of a message is over, and the pool was away or busy: another delivery may help."""


@dataclass(frozen=True)
class Answer:
    """Response of the model."""

    body: bytes
    attempts: int


class Asking:
    """Sends requests to a gateway, more slowly when it is busy.

    A pool that is busy or away costs a message no attempt: it is waited for until its deadline, and
    then comes again. What breaks or fails in the middle costs one, as the message may be the cause.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        endpoint: str,
        pressure: Pressure,
        *,
        attempts: int,
        first_wait: float,
        longest_wait: float,
        key_file: str = "",
        retried: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._session = session
        self._endpoint = endpoint.rstrip("/")
        self._pressure = pressure
        self._attempts = attempts
        self._first_wait = first_wait
        self._longest_wait = longest_wait
        self._key_file = Path(key_file) if key_file else None
        self._retried = retried

    async def ask(
        self, request: Request, deadline: float, begins: Callable[[], None] = lambda: None
    ) -> Answer:
        """Return the answer to a request.

        Args:
            request: What is asked.
            deadline: Value of `time.monotonic` after which there is no attempt.
            begins: Called when there is room, before each attempt.

        Raises:
            Poison: The model refuses the request, or the attempts are used up.
            Unanswered: The deadline passed first.
        """
        failures = waits = 0
        while True:
            await self._enter(deadline)
            begins()
            try:
                status, headers, body = await self._send(request, deadline)
                if status == 200:
                    self._pressure.answered()  # while it counts as running
            finally:
                await self._pressure.leave()
            if status == 200:
                return Answer(body, failures + 1)
            if 400 <= status < 500 and status not in (*_BUSY, *_MAY_PASS, *_REJECTED_KEY):
                raise Poison(f"http-{status}", _said(body), failures + 1)
            after = retry_after(headers.get("retry-after"), time.time())
            if status in _BUSY:
                self._pressure.refused(after)
            if status not in (*_BUSY, *_AWAY, *_REJECTED_KEY):
                failures += 1
            if failures >= self._attempts:
                reason = f"http-{status}" if status > 0 else "connection-lost"
                raise Poison(reason, _said(body), failures)
            waits += 1
            self._retried(_word(status))
            await self._wait(after or self._backoff(waits), deadline)

    async def _enter(self, deadline: float) -> None:
        try:
            await asyncio.wait_for(self._pressure.enter(), max(deadline - time.monotonic(), 0.001))
        except TimeoutError:
            raise Unanswered("the pool had no room") from None

    async def _send(self, request: Request, deadline: float) -> tuple[int, dict[str, str], bytes]:
        """Return status (0: nobody answers, -1: the connection broke), headers and body."""
        left = deadline - time.monotonic()
        headers = dict(request.headers)
        if self._key_file is not None:
            headers["authorization"] = f"Bearer {self._key_file.read_text().strip()}"
        timeout = aiohttp.ClientTimeout(total=max(left, 0.001), sock_connect=_CONNECT_SECONDS)
        try:
            async with self._session.post(
                self._endpoint + request.path, json=request.body, headers=headers, timeout=timeout
            ) as response:
                named = {name.lower(): value for name, value in response.headers.items()}
                return response.status, named, await response.read()
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            return 0, {}, b""
        except TimeoutError:
            raise Unanswered("no answer before the deadline") from None
        except aiohttp.ClientError:
            return -1, {}, b""

    def _backoff(self, waits: int) -> float:
        most = min(self._longest_wait, self._first_wait * 2 ** min(waits - 1, 20))
        return random.uniform(most / 2, most)  # noqa: S311 - it spreads attempts

    async def _wait(self, seconds: float, deadline: float) -> None:
        if time.monotonic() + seconds >= deadline:
            raise Unanswered("no time for another attempt")
        await asyncio.sleep(seconds)


def retry_after(value: str | None, now: float) -> float | None:
    """Return the seconds that a `Retry-After` header asks for: a number, or a date."""
    if value is None:
        return None
    if value.strip().isdigit():
        return float(value.strip())
    try:
        asked = email.utils.parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    return max(0.0, asked.timestamp() - now)


def _word(status: int) -> str:
    words: dict[int, str] = {0: "unreachable", -1: "connection-lost"}
    return words.get(status, str(status))


def _said(body: bytes) -> str:
    """Return the code of an error answer, never its text: that may repeat the prompt."""
    try:
        content: Any = json.loads(body)
        error = content.get("error", content)
        return str(error.get("code") or error.get("type") or "")[:100]
    except (ValueError, AttributeError):
        return ""
