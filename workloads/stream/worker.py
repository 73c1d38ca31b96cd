"""The worker: takes messages, calls the model, stores answers, and stops on request."""

import asyncio
import logging
import time
from dataclasses import dataclass, field
from typing import Final

from workloads.common.logs import say
from workloads.common.pressure import Pressure

from .asking import Asking, Unanswered
from .google_api import GoogleError
from .messages import Message, Poison, request_of
from .metrics import Metrics
from .results import Publishes, Results
from .settings import Settings
from .source import Delivery, Source, SourceError, TooLarge

_FIRST_KEEP_SECONDS: Final = 0.5
_LONGEST_KEEP_SECONDS: Final = 15.0
_LONGEST_ATTRIBUTE: Final = 1024
_MOST_ATTRIBUTES: Final = 90
"""Own attributes of a dead letter: a message has at most 100, and some state the reason."""
_MOST_REMEMBERED: Final = 10_000
"""Messages given back whose failed attempts still count; another worker may have them by now."""


@dataclass
class _Turn:
    """The turn of one key."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0


class Worker:
    """Processes the messages of a source.

    Args:
        settings: Of the worker.
        source: Where messages come from.
        asking: Asks the model.
        results: Where answers go.
        letters: Where dead letters go.
        metrics: Counts.
        pressure: The limit of what is under way.
    """

    def __init__(
        self,
        settings: Settings,
        source: Source,
        asking: Asking,
        results: Results,
        letters: Publishes,
        metrics: Metrics,
        pressure: Pressure,
    ) -> None:
        self._settings = settings
        self._source = source
        self._asking = asking
        self._results = results
        self._letters = letters
        self._metrics = metrics
        self._pressure = pressure
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked: set[asyncio.Task[None]] = set()
        self._turns: dict[str, _Turn] = {}
        self._failures: dict[str, int] = {}
        self._draining = False

    @property
    def is_draining(self) -> bool:
        """Whether the worker takes no more messages."""
        return self._draining

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, then finish the started messages.

        Raises:
            SourceError: The source ended by itself.
        """
        self._source.start(self._receive)
        ended = asyncio.create_task(self._source.ended())
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
        self._draining = True
        await self._source.stop()
        for task in self._tasks - self._asked:
            task.cancel()
        say(logging.INFO, "draining", running=len(self._asked))
        if self._tasks:
            await asyncio.wait(self._tasks)
        if stopped.done():
            await self._source.close()
            ended.cancel()
        stopped.cancel()
        for end in await asyncio.gather(ended, return_exceptions=True):
            if isinstance(end, SourceError):
                raise end

    def _receive(self, delivery: Delivery) -> None:
        self._loop.call_soon_threadsafe(self._begin, delivery)

    def _begin(self, delivery: Delivery) -> None:
        if self._draining:
            self._give_back(delivery, "draining")
            return
        task = self._loop.create_task(self._handle(delivery))

        def over(_: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if task.cancelled():  # perhaps before its first line
                self._give_back(delivery, "draining")

        self._tasks.add(task)
        task.add_done_callback(over)

    def _give_back(self, delivery: Delivery, why: str) -> None:
        delivery.give_back()
        self._metrics.outcomes["returned"].inc()
        say(logging.INFO, "returned", id=delivery.message.id, why=why)

    async def _handle(self, delivery: Delivery) -> None:
        began = time.monotonic()
        try:
            await self._in_turn(delivery.message)
        except (Unanswered, SourceError, GoogleError) as error:
            self._give_back(delivery, str(error))
        except Exception as error:  # noqa: BLE001 - of one message: the others go on
            self._give_back(delivery, type(error).__name__)
        else:
            delivery.done()
            self._metrics.seconds.observe(time.monotonic() - began)

    async def _in_turn(self, message: Message) -> None:
        """Work on a message, where order counts after those of its key that came before."""
        if not (self._settings.ordered and message.key):
            await self._work(message, time.monotonic() + self._settings.deadline_seconds)
            return
        turn = self._turns.setdefault(message.key, _Turn())
        turn.waiting += 1
        try:
            async with turn.lock:
                await self._until_answered(message)
        finally:
            turn.waiting -= 1
            if not turn.waiting:
                del self._turns[message.key]

    async def _until_answered(self, message: Message) -> None:
        """Work on a message; where one given back would come after later ones, until it is done."""
        while True:
            try:
                await self._work(message, time.monotonic() + self._settings.deadline_seconds)
            except (Unanswered, SourceError, GoogleError):
                if self._settings.source["kind"] != "kafka" or self._draining:
                    raise
                await asyncio.sleep(_FIRST_KEEP_SECONDS)
            else:
                return

    async def _work(self, message: Message, deadline: float) -> None:
        """Answer a message, or make it a dead letter.

        Raises:
            Unanswered, SourceError, GoogleError: The message is not at fault: time may help.
        """
        try:
            await self._answer(message, deadline)
        except Poison as poison:
            await self._bury(message, poison)
        except Unanswered as error:
            self._failures.pop(message.id, None)
            if error.failures:
                self._failures[message.id] = error.failures
            while len(self._failures) > _MOST_REMEMBERED:
                del self._failures[next(iter(self._failures))]
            raise
        except (SourceError, GoogleError):
            raise
        except Exception as error:  # noqa: BLE001 - again, it would fail again
            await self._bury(message, Poison("internal-error", type(error).__name__, 1))
        self._failures.pop(message.id, None)

    async def _answer(self, message: Message, deadline: float) -> None:
        settings = self._settings
        request = request_of(
            message,
            model=settings.model,
            names=settings.names,
            objective=settings.objective,
            max_bytes=settings.max_bytes,
            team=settings.team,
        )
        failures = self._failures.get(message.id, 0)
        answer = await self._asking.ask(request, deadline, self._is_asked, failures)
        try:
            await self._keep(message, answer.body, request.body["model"], deadline)
        except TooLarge as error:
            raise Poison("answer-too-large", str(error), answer.attempts) from None
        self._metrics.outcomes["answered"].inc()

    async def _keep(self, message: Message, answer: bytes, model: str, deadline: float) -> None:
        """Keep an answer, again and again until the deadline: the model is not asked twice for it.

        Raises:
            TooLarge: No attempt helps.
            Poison: All attempts failed for a reason that nobody thought of.
            SourceError, GoogleError: It is not kept.
        """
        wait, failures = _FIRST_KEEP_SECONDS, 0
        while True:
            try:
                return await self._results.keep(message, answer, model)
            except TooLarge:
                raise
            except (SourceError, GoogleError) as error:
                if time.monotonic() + wait >= deadline:
                    raise
                say(logging.WARNING, "answer not kept yet", id=message.id, why=str(error))
            except Exception as error:  # noqa: BLE001 - of one message: the others go on
                failures, name = failures + 1, type(error).__name__
                if failures >= self._settings.attempts:
                    raise Poison("internal-error", name, failures) from None
                if time.monotonic() + wait >= deadline:
                    raise Unanswered(name, failures) from None
                say(logging.WARNING, "answer not kept yet", id=message.id, why=name)
            await asyncio.sleep(wait)
            wait = min(2 * wait, _LONGEST_KEEP_SECONDS)

    def _is_asked(self) -> None:
        """Remember that the current message has begun: a drain lets it finish."""
        task = asyncio.current_task()
        if task is not None and task not in self._asked:
            self._asked.add(task)
            task.add_done_callback(self._asked.discard)

    async def _bury(self, message: Message, poison: Poison) -> None:
        """Publish a dead letter: all of the message, or what its topic takes of it.

        Raises:
            SourceError: The topic is away.
        """
        own = {
            "reason": poison.reason,
            "attempts": str(poison.attempts),
            "original_id": message.id,
            "stream": self._settings.stream,
        }
        kept = dict(list(message.attributes.items())[:_MOST_ATTRIBUTES])
        told = {**own, **({"detail": _cut(poison.detail)} if poison.detail else {})}
        size = {"data_bytes": str(len(message.data))}
        # the data stays in its own topic as long as that keeps it
        forms = (
            (message.data, {**kept, **told}, message.key),
            (b"", {**kept, **told, **size}, message.key),
            (message.data, told, ""),
            (b"", {**told, **size}, ""),
        )
        for data, attributes, key in forms:
            try:
                await self._letters.publish(data, attributes, key)
                break
            except TooLarge:
                continue
            except (SourceError, GoogleError):
                raise
            except Exception as error:  # noqa: BLE001 - an attribute or a key that nobody can send
                say(logging.WARNING, "letter cut", id=message.id, why=type(error).__name__)
        else:
            raise SourceError("the dead letter is not taken")
        self._metrics.died(poison.reason)
        say(logging.WARNING, "dead letter", id=message.id, reason=poison.reason)

    def watch(self) -> None:
        """Record the limit and what is under way."""
        self._metrics.limit.set(self._pressure.limit)
        self._metrics.running.set(self._pressure.running)


def _cut(text: str) -> str:
    """Return as much of a text as an attribute has room for."""
    return text.encode(errors="replace")[:_LONGEST_ATTRIBUTE].decode(errors="ignore")
