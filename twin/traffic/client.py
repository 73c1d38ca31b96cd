"""Sends the requests of a trace when they are due, and tells answers from errors from losses."""

import asyncio
import gc
import json
from dataclasses import dataclass
from typing import Any, cast

import aiohttp
import uvloop

from twin.traffic.asks import Ask, Trace
from twin.traffic.records import Outcome, Record
from twin.traffic.report import Report

POD_HEADER = "x-gke-inference-pod"
_DETAIL = 200
_BUFFER = 2**20


@dataclass(frozen=True)
class Options:
    """How a trace is replayed."""

    speed: float = 1.0
    """Trace seconds that pass in a real one; the engines behind must run as fast. What is
    reported is in trace seconds."""
    timeout_seconds: float = 600.0
    """Real seconds after which a request without an end counts as lost."""
    path: str = "/v1/completions"
    connect_seconds: float = 10.0
    """Real seconds to get a connection."""


@dataclass
class _Progress:
    """What is known of a request under way."""

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
    """The server broke the protocol: reason and detail."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(detail)
        self.reason = reason


class _Replay:
    def __init__(self, trace: Trace, url: str, options: Options) -> None:
        self._trace = trace
        self._url = url.rstrip("/") + options.path
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._start = 0.0

    def _now(self) -> float:
        return (self._loop.time() - self._start) * self._options.speed

    async def run(self) -> Report:
        limits = aiohttp.ClientTimeout(
            total=self._options.timeout_seconds, sock_connect=self._options.connect_seconds
        )
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=30)
        headers = {"Content-Type": "application/json"}
        tasks: list[asyncio.Task[Record]] = []
        async with aiohttp.ClientSession(
            connector=connector, timeout=limits, headers=headers, read_bufsize=_BUFFER
        ) as session:
            self._start = self._loop.time() + 0.05
            for number, ask in enumerate(self._trace.asks):
                body = ask.body()  # made before it is due
                wait = self._start + ask.at / self._options.speed - self._loop.time()
                if wait > 0:
                    await asyncio.sleep(wait)
                tasks.append(asyncio.create_task(self._one(session, number, ask, body)))
            records = await asyncio.gather(*tasks)
        return Report(tuple(records), self._options.speed)

    async def _one(
        self, session: aiohttp.ClientSession, number: int, ask: Ask, body: bytes
    ) -> Record:
        sent = self._now()
        seen = _Progress()
        outcome, error, detail = Outcome.LOST, "", ""
        try:
            async with session.post(self._url, data=body, headers=ask.headers) as response:
                seen.status = response.status
                seen.replica = response.headers.get(POD_HEADER, "")
                if response.status >= 400:
                    detail = (await response.text(errors="replace"))[:_DETAIL]
                    outcome, error = Outcome.REFUSED, f"http-{response.status}"
                else:
                    await (self._stream if ask.stream else self._whole)(response, seen)
                    outcome, error = Outcome.ANSWERED, ""
                    if seen.error:
                        outcome, error, detail = Outcome.REFUSED, "stream-error", seen.error
        except TimeoutError as problem:
            error, detail = "timeout", repr(problem)
        except _Lost as problem:
            error, detail = problem.reason, str(problem)
        except aiohttp.ClientConnectorError as problem:
            error, detail = "connect", repr(problem)
        except aiohttp.ClientPayloadError as problem:
            error, detail = "truncated", repr(problem)
        except (aiohttp.ClientError, OSError) as problem:
            error, detail = "reset", repr(problem)
        return Record(
            number=number,
            outcome=outcome,
            due=ask.at,
            sent=sent,
            done=self._now(),
            first=seen.first,
            last=seen.last,
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
            _Lost: there is no end, or what came is not a stream.
        """
        rest = b""
        async for data in response.content.iter_any():
            now = self._now()
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

    @staticmethod
    def _event(event: bytes, seen: _Progress, now: float) -> None:
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
                seen.first = now if seen.first is None else seen.first
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
        seen.last = self._now()
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


async def replay(trace: Trace, url: str, options: Options | None = None) -> Report:
    """Send the requests of a trace to an OpenAI endpoint in the running event loop.

    Args:
        trace: what is sent, and when.
        url: base URL, without `/v1`.
        options: speed and time-outs.
    """
    return await _Replay(trace, url, options or Options()).run()


def run(trace: Trace, url: str, options: Options | None = None) -> Report:
    """Send the requests of a trace and return what became of each; blocks until all have ended.

    Safe to call from a thread: it has an event loop of its own.
    """
    gc.collect()
    return uvloop.run(replay(trace, url, options))
