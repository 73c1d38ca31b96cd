"""A client that sends the requests of a trace when due, and classifies the outcomes."""

import asyncio
import gc
import json
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, cast

import aiohttp
import uvloop
from aiohttp.abc import AbstractResolver, ResolveResult

from simulator.traffic.asks import Trace, TraceEntry
from simulator.traffic.records import Outcome, Record
from simulator.traffic.report import Report

POD_HEADER = "x-gke-inference-pod"
LOCAL_CLIENTS = tuple(f"127.16.0.{number}" for number in range(1, 41))
"""Addresses of this machine for traffic of many clients: an edge may limit the rate of each."""
_DETAIL = 200
_BUFFER = 2**20
_HEAD_START_SECONDS = 0.05


class Pace(Protocol):
    """Trace time, in which measurements are stated."""

    def now(self) -> float:
        """Return the trace time."""
        ...


class Steady:
    """Trace time at one speed, from 0.

    Args:
        speed: trace seconds per second of real time.
    """

    def __init__(self, speed: float = 1.0) -> None:
        self._speed = speed
        self._start = time.monotonic()

    def now(self) -> float:
        """Return the trace time."""
        return (time.monotonic() - self._start) * self._speed

    def delay(self, moment: float) -> float:
        """Return the real seconds until a trace time."""
        return moment / self._speed - (time.monotonic() - self._start)


@dataclass(frozen=True)
class Options:
    """Options for the replay of a trace."""

    speed: float = 1.0
    """Trace seconds per second of real time; the engines must run at the same speed. Reports are in
    trace seconds."""
    timeout_seconds: float = 600.0
    """Real seconds after which an unfinished request counts as lost."""
    path: str = "/v1/completions"
    connect_seconds: float = 10.0
    """Connection timeout in real seconds."""
    address: str | None = None
    """Address to connect to instead of the URL's host, which is still sent as the host name."""
    tls: ssl.SSLContext | None = None
    """Certificate authorities of the server; by default the system's."""
    sources: tuple[str, ...] = ()
    """Local addresses from which requests are sent in turn; by default the system's choice."""


@dataclass
class _Progress:
    """The state of a running request."""

    number: int
    first: float | None = None
    last: float | None = None
    tokens: int = 0
    prompt_tokens: int = 0
    finished: bool = False
    ended: bool = False
    error: str = ""
    status: int | None = None
    replica: str = ""


class _Lost(Exception):
    """The server violated the protocol, with reason and detail."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(detail)
        self.reason = reason


class _OneAddress(AbstractResolver):
    """A resolver that returns the same address for every name."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the address."""
        del family
        return [
            ResolveResult(
                hostname=host,
                host=self._address,
                port=port,
                family=socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
        ]

    async def close(self) -> None:
        """Do nothing."""


def _connector(options: Options, source: str | None) -> aiohttp.TCPConnector:
    return aiohttp.TCPConnector(
        limit=0,
        keepalive_timeout=30,
        local_addr=None if source is None else (source, 0),
        resolver=None if options.address is None else _OneAddress(options.address),
        ssl=True if options.tls is None else options.tls,
    )


class Client:
    """A sender of single requests, as an async context manager.

    Args:
        url: base URL, without `/v1`.
        pace: clock for the times of records.
        options: path and timeouts.
        on_first: called with a request's number when its first token arrives.
    """

    def __init__(
        self,
        url: str,
        pace: Pace,
        options: Options | None = None,
        on_first: Callable[[int], None] | None = None,
    ) -> None:
        self._options = options or Options()
        self._url = url.rstrip("/") + self._options.path
        self._pace = pace
        self._on_first = on_first
        self._sessions: list[aiohttp.ClientSession] = []

    async def __aenter__(self) -> "Client":
        """Open the session; connections are opened on demand."""
        limits = aiohttp.ClientTimeout(
            total=self._options.timeout_seconds, sock_connect=self._options.connect_seconds
        )
        self._sessions = [
            aiohttp.ClientSession(
                connector=_connector(self._options, source),
                timeout=limits,
                headers={"Content-Type": "application/json"},
                read_bufsize=_BUFFER,
            )
            for source in self._options.sources or (None,)
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close every connection."""
        for session in self._sessions:
            await session.close()

    async def send(self, number: int, ask: TraceEntry, body: bytes, start: float = 0.0) -> Record:
        """Send a request and return its outcome; never raise for a server's behavior.

        `body` is created before the request is due; `start` is the trace time at which records
        start.
        """
        if not self._sessions:
            raise RuntimeError("the client must be entered first")
        session = self._sessions[number % len(self._sessions)]
        sent = self._pace.now() - start
        seen = _Progress(number)
        outcome, error, detail = Outcome.LOST, "", ""
        try:
            async with session.post(self._url, data=body, headers=ask.headers) as response:
                seen.status = response.status
                seen.replica = response.headers.get(POD_HEADER, "")
                if response.status >= 400:
                    detail = await response.text(errors="replace")
                    outcome, error = Outcome.REFUSED, f"http-{response.status}"
                else:
                    await (self._stream if ask.stream else self._whole)(response, seen)
                    outcome, error = Outcome.ANSWERED, ""
                    if seen.error:
                        outcome, error, detail = Outcome.REFUSED, "stream-error", seen.error
        except (_Lost, OSError, aiohttp.ClientError) as problem:
            error, detail = _reason(problem), str(problem) or repr(problem)
        return Record(
            number=number,
            outcome=outcome,
            due=ask.at,
            sent=sent,
            done=self._pace.now() - start,
            first=None if seen.first is None else seen.first - start,
            last=None if seen.last is None else seen.last - start,
            tokens=seen.tokens,
            prompt_tokens=seen.prompt_tokens,
            status=seen.status,
            error=error,
            detail=detail[:_DETAIL],
            replica=seen.replica,
            group=ask.group,
        )

    async def _stream(self, response: aiohttp.ClientResponse, seen: _Progress) -> None:
        """Read server-sent events until the end.

        Raises:
            _Lost: the end is missing, or the response is not a stream.
        """
        rest = b""
        async for data in response.content.iter_any():
            now = self._pace.now()
            *events, rest = (rest + data).split(b"\n\n")
            for event in events:
                self._event(event.strip(), seen, now)
        if rest.strip():
            raise _Lost("truncated", f"ends inside an event: {rest[:60]!r}")
        if seen.error:
            return
        if not (seen.finished and seen.ended):
            missing = "finish_reason" if not seen.finished else "[DONE]"
            raise _Lost("unfinished", f"the stream ended without {missing}")

    def _event(self, event: bytes, seen: _Progress, now: float) -> None:
        if not event.startswith(b"data:"):
            return  # a comment that keeps the connection open
        payload = event[5:].strip()
        if payload == b"[DONE]":
            seen.ended = True
            return
        body = _object(payload)
        if body.get("error"):
            seen.error = json.dumps(body["error"])
            return
        choices: list[dict[str, Any]] = body.get("choices") or []
        for choice in choices:
            delta: dict[str, Any] = choice.get("delta") or {}
            if choice.get("text") or delta.get("content"):
                if seen.first is None:
                    seen.first = now
                    if self._on_first is not None:
                        self._on_first(seen.number)
                seen.last = now
            seen.finished = seen.finished or choice.get("finish_reason") is not None
        _usage(body, seen)

    async def _whole(self, response: aiohttp.ClientResponse, seen: _Progress) -> None:
        body = _object(await response.read())
        if body.get("error"):
            seen.error = json.dumps(body["error"])
            return
        choices: list[dict[str, Any]] = body.get("choices") or []
        if not choices or choices[0].get("finish_reason") is None:
            raise _Lost("unfinished", "an answer without a finish_reason")
        seen.last = self._pace.now()
        _usage(body, seen)


def _object(payload: bytes) -> dict[str, Any]:
    try:
        found = json.loads(payload)
    except ValueError as error:
        raise _Lost("malformed", f"not JSON: {payload[:60]!r}") from error
    if not isinstance(found, dict):
        raise _Lost("malformed", f"not an object: {payload[:60]!r}")
    return cast("dict[str, Any]", found)


def _usage(body: dict[str, Any], seen: _Progress) -> None:
    usage = body.get("usage")
    if usage:
        seen.tokens = int(usage.get("completion_tokens") or 0)
        seen.prompt_tokens = int(usage.get("prompt_tokens") or 0)


def _reason(problem: Exception) -> str:
    """Return the reason for which a request was lost."""
    if isinstance(problem, _Lost):
        return problem.reason
    if isinstance(problem, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return "connect"
    if isinstance(problem, TimeoutError):
        return "timeout"
    return "truncated" if isinstance(problem, aiohttp.ClientPayloadError) else "reset"


async def replay(trace: Trace, url: str, options: Options | None = None) -> Report:
    """Send the requests of a trace to an OpenAI endpoint in the running event loop.

    Args:
        trace: requests and their times.
        url: base URL, without `/v1`.
        options: speed and timeouts.
    """
    options = options or Options()
    pace = Steady(options.speed)
    tasks: list[asyncio.Task[Record]] = []
    async with Client(url, pace, options) as client:
        start = pace.now() + _HEAD_START_SECONDS * options.speed
        for number, ask in enumerate(trace.asks):
            body = ask.body()  # made before it is due
            wait = pace.delay(start + ask.at)
            if wait > 0:
                await asyncio.sleep(wait)
            tasks.append(asyncio.create_task(client.send(number, ask, body, start)))
        records = await asyncio.gather(*tasks)
    return Report(tuple(records), options.speed)


def run(trace: Trace, url: str, options: Options | None = None) -> Report:
    """Send the requests of a trace, wait until all have ended, and return the outcomes.

    You can call it from a thread, because it has its own event loop.
    """
    if gc.isenabled():
        gc.collect()  # so that the next collection is not soon, when requests are due
    return uvloop.run(replay(trace, url, options))
