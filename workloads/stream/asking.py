"""Asks the model about one message until an answer, a permanent failure, or the deadline."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from workloads.common.pressure import Pressure
from workloads.common.sending import BUSY, LATE, Said, Sender

from .messages import Poison, Request


class Unanswered(Exception):
    """The time of a message is over without an answer: another delivery may help.

    Attributes:
        failures: Attempts so far that the message may have caused to fail.
    """

    def __init__(self, why: str, failures: int = 0) -> None:
        super().__init__(why)
        self.failures = failures


@dataclass(frozen=True)
class Answer:
    """Response of the model."""

    body: bytes
    attempts: int


class Asking:
    """Asks a gateway, more slowly when it is busy.

    A pool that is busy or away costs a message no attempt: it is waited for until its deadline, and
    then comes again. What breaks or fails in the middle costs one, as the message may be the cause.

    Args:
        sender: Sends the attempts.
        pressure: The limit of what is under way.
        attempts: Failed attempts after which a message is a dead letter.
        retried: Counts an attempt that is repeated, by its status.
    """

    def __init__(
        self,
        sender: Sender,
        pressure: Pressure,
        *,
        attempts: int,
        retried: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._sender = sender
        self._pressure = pressure
        self._attempts = attempts
        self._retried = retried

    async def ask(
        self,
        request: Request,
        deadline: float,
        begins: Callable[[], None] = lambda: None,
        failures: int = 0,
    ) -> Answer:
        """Return the answer to a request.

        Args:
            request: What is asked.
            deadline: Value of `time.monotonic` after which there is no attempt.
            begins: Called when there is room, before each attempt.
            failures: Failed attempts of earlier deliveries.

        Raises:
            Poison: The model refuses the request, or the attempts are used up.
            Unanswered: The deadline passed first.
        """
        waits, half = 0, (deadline - time.monotonic()) / 2
        while True:
            said, had = await self._attempt(request, deadline, begins, failures)
            if said.status == 200:
                return Answer(said.body, failures + 1)
            if not said.is_repeated:
                raise Poison(f"http-{said.status}", said.code, failures + 1)
            after = self._sender.asked_wait(said, time.time())
            if said.status in BUSY:
                self._pressure.refused(after)
            # what had little time left is late because of those before it
            failures += said.is_failure and (said.status != LATE or had >= half)
            if failures >= self._attempts:
                reason = f"http-{said.status}" if said.status > 0 else said.word
                raise Poison(reason, said.code, failures)
            if said.status == LATE:
                raise Unanswered("no answer before the deadline", failures)
            waits += 1
            self._retried(said.word)
            wait = self._sender.wait_for(said, waits, time.time())
            await self._wait(wait, deadline, failures)

    async def _attempt(
        self, request: Request, deadline: float, begins: Callable[[], None], failures: int
    ) -> tuple[Said, float]:
        """Return the response to one attempt, and the seconds that it had."""
        room = max(deadline - time.monotonic(), 0.001)
        try:
            await asyncio.wait_for(self._pressure.enter(), room)
        except TimeoutError:
            raise Unanswered("the pool had no room", failures) from None
        try:
            begins()
            left = deadline - time.monotonic()
            said = await self._sender.send(request.path, request.body, request.headers, left)
            if said.status == 200:
                self._pressure.answered()  # while it counts as running
            return said, left
        finally:
            await self._pressure.leave()

    async def _wait(self, seconds: float, deadline: float, failures: int) -> None:
        if time.monotonic() + seconds >= deadline:
            raise Unanswered("no time for another attempt", failures)
        await asyncio.sleep(seconds)
