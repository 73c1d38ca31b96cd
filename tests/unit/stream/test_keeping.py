"""Answers that a worker cannot store at once, and messages that no topic accepts."""

import asyncio
from typing import Any

import pytest

from workloads.stream import worker as of_workers
from workloads.stream.asking import Answer
from workloads.stream.messages import Message, Poison
from workloads.stream.source import Delivery, SourceError, TooLarge
from workloads.stream.worker import Worker

LARGE = b'{"prompt": "' + b"x" * 400 + b'"}'


class Metrics:
    """Counts that nobody reads here."""

    def __init__(self) -> None:
        self.deaths: list[str] = []
        self.outcomes: Any = {"answered": self, "returned": self}
        self.seconds: Any = self

    def inc(self) -> None:
        pass

    def observe(self, seconds: float) -> None:
        pass

    def died(self, reason: str) -> None:
        self.deaths.append(reason)


class Model:
    """Answers at once, or refuses."""

    def __init__(self, poison: Poison | None = None) -> None:
        self.asked = 0
        self._poison = poison

    async def ask(self, *_: Any) -> Answer:
        self.asked += 1
        if self._poison is not None:
            raise self._poison
        return Answer(b"answer", 1)


class Topic:
    """Takes messages after some failures, each an error of a kind."""

    def __init__(self, *failures: Exception, most: int = 10**6) -> None:
        self.found: list[tuple[bytes, dict[str, str]]] = []
        self._failures = list(failures)
        self._most = most

    async def publish(self, data: bytes, attributes: dict[str, str], key: str = "") -> None:
        del key
        if self._failures:
            raise self._failures.pop(0)
        if len(data) > self._most:
            raise TooLarge("too large")
        self.found.append((data, attributes))

    async def keep(self, message: Message, answer: bytes, model: str) -> None:
        await self.publish(answer, {"id": message.id, "model": model})


class Settings:
    deadline_seconds = 5.0
    model = "llama"
    max_bytes = 10**6
    names = ("llama",)
    objective = "batch"
    ordered = False
    stream = "docs"
    team = ""


def worked(data: bytes, model: Model, results: Topic, letters: Topic, **settings: Any) -> list[str]:
    """Work on one message; return what became of it."""
    became: list[str] = []

    async def work() -> None:
        of: Any = type("Changed", (Settings,), settings)
        ours: dict[str, Any] = {"asking": model, "results": results, "metrics": Metrics()}
        anything: Any = None
        made = Worker(of, anything, letters=letters, pressure=anything, **ours)
        message = Message("7", data, {"colour": "red"})
        delivery = Delivery(
            message, lambda: became.append("done"), lambda: became.append("given back")
        )
        await made._handle(delivery)

    asyncio.run(work())
    return became


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_workers, "_FIRST_KEEP_SECONDS", 0.01)


def test_an_answer_that_is_not_kept_at_once_is_kept_later_and_the_model_asked_once() -> None:
    model, results, letters = Model(), Topic(SourceError("away"), SourceError("away")), Topic()
    assert worked(b'{"prompt": "a"}', model, results, letters) == ["done"]
    assert model.asked == 1
    assert results.found == [(b"answer", {"id": "7", "model": "llama"})]


def test_an_answer_that_is_not_kept_until_the_deadline_comes_again() -> None:
    results = Topic(*[SourceError("away")] * 99)
    found = worked(b'{"prompt": "a"}', Model(), results, Topic(), deadline_seconds=0.1)
    assert found == ["given back"]


def test_an_answer_that_is_too_large_for_its_topic_is_a_dead_letter() -> None:
    results, letters = Topic(most=3), Topic()
    assert worked(b'{"prompt": "a"}', Model(), results, letters) == ["done"]
    ((data, attributes),) = letters.found
    assert data == b'{"prompt": "a"}'
    assert attributes["reason"] == "answer-too-large"


def test_a_dead_letter_that_is_too_large_for_its_topic_goes_without_its_text() -> None:
    letters = Topic(most=100)
    model = Model(Poison("http-400", "", 1))
    assert worked(LARGE, model, Topic(), letters) == ["done"]
    ((data, attributes),) = letters.found
    assert data == b""
    assert attributes["data_bytes"] == str(len(LARGE))
    assert attributes["original_id"] == "7"
    assert attributes["colour"] == "red"
