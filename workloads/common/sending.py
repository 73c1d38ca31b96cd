"""Attempts at a request, the same for messages and lines of batches: what is sent, what counts."""

import email.utils
import json
import logging
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from workloads.common.logs import say

BUSY: Final = (429, 503)
_MAY_PASS: Final = (408, 409, 425)
"""Statuses below 500 that another attempt may help."""
NOBODY: Final = 0
"""Status where nobody answers."""
BROKEN: Final = -1
"""Status of a connection that broke."""
LATE: Final = -2
"""Status of an attempt without an answer in its time."""
UNSENT: Final = -3
"""Status of a request that cannot be sent, for a reason that nobody thought of."""
_AWAY: Final = (NOBODY, 502)
"""No response, or a proxy that got none."""
_REJECTED_KEY: Final = (401, 403)
"""Somebody must fix the key; until then, no request is at fault."""
_SPENT: Final = "insufficient_quota"
"""Code of a quota that a new month or a larger limit restores: no request is at fault."""
_OF_A_TEAM: Final = ("rate_limit_exceeded", _SPENT)
"""Codes of the limits of a team, with which the gate of clients refuses (docs/api-errors.md)."""
TEAM_HEADER: Final = "x-gki-on-behalf-of"
"""Header that names the team of a request, from a key of a team with `acts_for_teams`."""
_CONNECT_SECONDS: Final = 5.0
_WORDS: Final[Mapping[int, str]] = {
    NOBODY: "unreachable",
    BROKEN: "connection-lost",
    LATE: "no-answer",
    UNSENT: "internal-error",
}


@dataclass(frozen=True)
class Said:
    """A response, or one of the statuses of this module."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def code(self) -> str:
        """Code or type of an error in OpenAI's format; never its text: it may repeat the prompt."""
        try:
            content: Any = json.loads(self.body)
            error = content.get("error", content)
            return str(error.get("code") or error.get("type") or "")[:100]
        except (ValueError, AttributeError, RecursionError):
            return ""

    @property
    def word(self) -> str:
        """The status as a label of metrics."""
        return _WORDS.get(self.status, str(self.status))

    @property
    def is_repeated(self) -> bool:
        """Whether another attempt may have another result."""
        if self.headers.get("x-should-retry") == "false" and self.code != _SPENT:
            return False
        if self.status >= 500 or self.status <= 0:
            return True
        return self.status in (*BUSY, *_MAY_PASS, *_REJECTED_KEY)

    @property
    def is_failure(self) -> bool:
        """Whether it costs an attempt: the request may be the cause, and not the pool or a key."""
        return self.status not in (*BUSY, *_AWAY, *_REJECTED_KEY)

    @property
    def is_limit_of_team(self) -> bool:
        """Whether a limit of the team refused, which says nothing about the pool."""
        return self.status == 429 and self.code in _OF_A_TEAM


class Sender:
    """Sends single attempts to a gateway.

    Args:
        session: Session of the calls.
        endpoint: URL of the gateway, without a path.
        key_file: File of the key, read for each attempt; empty where requests need none.
        first_wait: Shortest wait before a second attempt, in seconds; it can double for each
            further one.
        longest_wait: Longest wait before an attempt, in seconds.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        endpoint: str,
        key_file: str,
        first_wait: float,
        longest_wait: float,
    ) -> None:
        self._session = session
        self._endpoint = endpoint.rstrip("/")
        self._key_file = Path(key_file) if key_file else None
        self._first_wait = first_wait
        self._longest_wait = longest_wait

    async def send(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str], seconds: float
    ) -> Said:
        """Return the response to one attempt. Whatever goes wrong is a status, never an error.

        Args:
            path: Path of the request.
            body: Its body.
            headers: Its headers, without those of the key.
            seconds: Time for the response.
        """
        sent = dict(headers)
        if self._key_file is not None:
            key = _key(self._key_file)
            if not key:
                return Said(401, {}, b"")
            sent["authorization"] = f"Bearer {key}"
        timeout = aiohttp.ClientTimeout(total=max(seconds, 0.001), sock_connect=_CONNECT_SECONDS)
        try:
            async with self._session.post(
                self._endpoint + path, json=body, headers=sent, timeout=timeout
            ) as response:
                named = {name.lower(): value for name, value in response.headers.items()}
                return Said(response.status, named, await response.read())
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            return Said(NOBODY, {}, b"")
        except TimeoutError:
            return Said(LATE, {}, b"")
        except aiohttp.ClientError:
            return Said(BROKEN, {}, b"")
        except Exception as error:  # noqa: BLE001 - of one request: the others go on
            request = sent.get("x-request-id", "")
            say(logging.WARNING, "attempt failed", request=request, why=type(error).__name__)
            return Said(UNSENT, {}, b"")

    def wait_for(self, said: Said, waits: int, now: float) -> float:
        """Return the seconds before another attempt: those asked for, or more for each wait.

        Args:
            said: The last response. A quota can ask for weeks, so what it asks for is bounded.
            waits: Number of waits, including this one.
            now: Seconds since the epoch.
        """
        return self.asked_wait(said, now) or self._backoff(waits)

    def asked_wait(self, said: Said, now: float) -> float | None:
        """Return the seconds that a response asks for, bounded, or None."""
        after = retry_after(said.headers.get("retry-after"), now)
        return None if after is None else min(after, self._longest_wait)

    def _backoff(self, waits: int) -> float:
        most = min(self._longest_wait, self._first_wait * 2 ** min(waits - 1, 20))
        return random.uniform(most / 2, most)  # noqa: S311 - it spreads attempts


def retry_after(value: str | None, now: float) -> float | None:
    """Return the seconds that a `Retry-After` header asks for: a number, or a date."""
    if value is None:
        return None
    try:
        if value.strip().isdigit():
            return float(value.strip())
        asked = email.utils.parsedate_to_datetime(value)
        return max(0.0, asked.timestamp() - now)
    except (TypeError, ValueError, OverflowError):
        return None


def _key(file: Path) -> str:
    """Return the key; empty if there is none that can be sent."""
    try:
        key = file.read_text().strip()
    except (OSError, ValueError) as error:
        say(logging.WARNING, "no key", why=type(error).__name__)
        return ""
    return key if key.isascii() and key.isprintable() else ""
