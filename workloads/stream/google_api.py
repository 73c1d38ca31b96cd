"""Calls to Google's JSON APIs with the identity of the pod."""

import asyncio
import os
import time
from datetime import UTC
from typing import Any, Final

import aiohttp

_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
_MARGIN_SECONDS: Final = 300.0
_TIMEOUT: Final = aiohttp.ClientTimeout(total=60)
_TRANSIENT: Final = (408, 429, 500, 502, 503, 504)
_TRIES: Final = 5


class GoogleError(Exception):
    """A call failed and is not repeated; the status is part of the message."""

    def __init__(self, status: int, what: str) -> None:
        super().__init__(f"{what}: HTTP {status}")
        self.status = status


class GoogleApi:
    """A base address, with a token where it is Google's own.

    Args:
        session: Of HTTP.
        host: Such as `storage.googleapis.com`.
        emulator: Variable that names another server, as Google's clients read it.
    """

    def __init__(self, session: aiohttp.ClientSession, host: str, emulator: str) -> None:
        self._session = session
        replaced = os.environ.get(emulator)
        self._signs = replaced is None
        found = replaced or f"https://{host}"
        self.base = found if "://" in found else f"http://{found}"
        self._token = ""
        self._until = 0.0
        self._lock = asyncio.Lock()

    async def post(
        self, path: str, *, content: bytes, allowed: tuple[int, ...] = ()
    ) -> tuple[int, bytes]:
        """Return status and body of a call; one that fails for a moment is repeated.

        Raises:
            GoogleError: It failed otherwise.
        """
        for attempt in range(1, _TRIES + 1):
            headers = {"content-type": "application/json", **await self._authorization()}
            try:
                async with self._session.post(
                    self.base + path, data=content, headers=headers, timeout=_TIMEOUT
                ) as response:
                    status, body = response.status, await response.read()
            except (aiohttp.ClientError, TimeoutError):
                status, body = 503, b""
            if status < 400 or status in allowed:
                return status, body
            if status not in _TRANSIENT or attempt == _TRIES:
                raise GoogleError(status, path.partition("?")[0])
            await asyncio.sleep(0.2 * 2**attempt)
        raise GoogleError(503, path)

    async def _authorization(self) -> dict[str, str]:
        if not self._signs:
            return {}
        async with self._lock:
            if time.time() > self._until - _MARGIN_SECONDS:
                try:
                    self._token, self._until = await asyncio.to_thread(_fetch)
                except Exception as error:  # of many kinds, and none is a message's fault
                    raise GoogleError(401, f"token: {type(error).__name__}") from error
        return {"authorization": f"Bearer {self._token}"}


def _fetch() -> tuple[str, float]:
    import google.auth  # noqa: PLC0415 - emulators need none
    import google.auth.transport.requests  # noqa: PLC0415

    default: Any = google.auth.default
    credentials: Any = default(scopes=[_SCOPE])[0]
    credentials.refresh(google.auth.transport.requests.Request())
    expiry: Any = credentials.expiry  # in UTC, without a zone
    if expiry is None:
        return str(credentials.token), time.time() + 600
    return str(credentials.token), float(expiry.replace(tzinfo=UTC).timestamp())
