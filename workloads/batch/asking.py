"""Sends one request of a batch to a model until there is an answer or retries are pointless."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import aiohttp

from workloads.common.pressure import Pressure
from workloads.common.sending import BUSY, TEAM_HEADER, UNSENT, Said, Sender

from .answers import Answer, answered, unanswered
from .settings import Settings


class Stopped(Exception):
    """The request was abandoned because its batch ends or the worker stops."""


@dataclass(frozen=True)
class Question:
    """One request of a batch."""

    team: str
    """Team of its file, for which it is sent."""
    batch: str
    number: int
    custom_id: str
    url: str
    body: Mapping[str, Any]


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
        self._sender = Sender(
            session,
            settings.endpoint,
            settings.key_file,
            settings.first_wait_seconds,
            settings.longest_wait_seconds,
        )
        self._settings = settings
        self._pressure = pressure
        self._retried = retried
        self._resting: dict[str, float] = {}

    def is_resting(self, team: str) -> bool:
        """Return whether a limit of a team lets none of its requests pass at the moment."""
        return self._resting.get(team, 0.0) > time.time()

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
            if said.status == 200 or not said.is_repeated:
                return _answer(question, said)
            after = self._sender.asked_wait(said, time.time())
            if said.is_limit_of_team:
                self._resting[question.team] = time.time() + (after or 1.0)
            elif said.status in BUSY:
                self._pressure.refused(after)
            failures += said.is_failure
            if failures >= self._settings.attempts:
                return _answer(question, said)
            waits += 1
            self._retried(said.word)
            await self._wait(self._sender.wait_for(said, waits, time.time()), until, stop)
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

    async def enter(self, team: str, until: float, stop: asyncio.Event) -> None:
        """Wait until a first attempt may start.

        Args:
            team: Team of the request; the others do not wait for its limits.
            until: Seconds since the epoch, after which none starts.
            stop: Ends waiting.

        Raises:
            Stopped: `until` passed or `stop` was set first.
        """
        if stop.is_set() or time.time() >= until:
            raise Stopped
        while self.is_resting(team):
            await self._wait(self._resting[team] - time.time(), until, stop)
        await self._enter(until, stop)

    async def _send(self, question: Question) -> Said:
        headers = {"x-request-id": f"{question.batch}-{question.number}"}
        model = self._settings.models.get(str(question.body.get("model")))
        if model is not None and model.objective:
            headers["x-gateway-inference-objective"] = model.objective
        if self._settings.teams is not None:
            headers[TEAM_HEADER] = question.team
        seconds = self._settings.deadline_seconds
        return await self._sender.send(question.url, question.body, headers, seconds)


def _answer(question: Question, said: Said) -> Answer:
    if said.status <= 0:
        message = "The connection broke or the answer took too long, at each attempt."
        if said.status == UNSENT:
            message = "The request cannot be sent."
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


def _with_body(question: Question, said: Said, body: Any) -> Answer:
    response = {
        "status_code": said.status,
        "request_id": said.headers.get("x-request-id", f"{question.batch}-{question.number}"),
        "body": body,
    }
    return answered(question.number, question.batch, question.custom_id, response)
