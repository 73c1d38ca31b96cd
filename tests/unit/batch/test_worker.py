"""Shards of a worker: a failure in one does not affect others."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.unit.batch.memory import Memory
from tests.unit.batch.test_keeper import SETTINGS, add, look, now_of
from workloads.batch.answers import Answer, answered
from workloads.batch.asking import Asking, Question, Stopped
from workloads.batch.metrics import WorkerMetrics
from workloads.batch.records import batch_name, file_name, open_name, shards_of
from workloads.batch.worker import Worker


class Answering(Asking):
    """Answers at once, or fails in a way that nobody thought of."""

    def __init__(self, fails: Callable[[], bool] = lambda: False) -> None:
        self.asked = 0
        self._fails = fails

    def is_resting(self, team: str) -> bool:
        return False

    async def enter(self, team: str, until: float, stop: asyncio.Event) -> None:
        return

    async def ask(self, question: Question, until: float, stop: asyncio.Event) -> Answer:
        self.asked += 1
        if self._fails():
            raise LookupError
        response = {"status_code": 200, "body": {}}
        return answered(question.number, question.batch, question.custom_id, response)


async def work(bucket: Memory, asking: Asking, **changes: Any) -> None:
    """Let a worker work until it finds nothing to do."""
    settings = replace(SETTINGS, keep_seconds=0.0, **changes)
    stop = asyncio.Event()
    working = asyncio.create_task(Worker(settings, bucket, asking, WorkerMetrics()).run(stop))
    await bucket.rest()
    stop.set()
    await asyncio.wait_for(working, 5)


def test_a_batch_that_cannot_be_read_stops_no_worker() -> None:
    async def run() -> None:
        bucket = Memory()
        await bucket.write("open/README", b"")
        batch = await add(bucket, 3)
        await look(bucket)
        await bucket.write(batch_name("everyone", "batch_0"), b"[")
        await bucket.write(open_name(1, "everyone", "batch_0"), b"")
        await work(bucket, Answering())
        (held,) = await shards_of(bucket, batch["id"])
        assert (held.shard.state, held.shard.completed) == ("sealed", 3)

    asyncio.run(run())


def test_shards_that_come_back_are_not_taken_again_at_once() -> None:
    async def run() -> None:
        bucket = Memory()
        batches = [await add(bucket) for _ in range(5)]
        await look(bucket)
        failing = Answering(lambda: True)
        await work(bucket, failing, poll_seconds=60)
        assert 1 <= failing.asked <= 5
        await work(bucket, Answering())
        shards = [held.shard for each in batches for held in await shards_of(bucket, each["id"])]
        assert [(each.state, each.completed) for each in shards] == [("sealed", 1)] * 5

    asyncio.run(run())


def test_a_worker_without_an_input_lets_the_service_end_the_batch() -> None:
    async def run() -> None:
        bucket = Memory()
        batch = await add(bucket, 3)
        await look(bucket)
        await bucket.delete(file_name("everyone", "file-1"))
        asking = Answering()
        await work(bucket, asking)
        await look(bucket)
        assert (now_of(bucket, batch)["status"], asking.asked) == ("failed", 0)

    asyncio.run(run())


class Limited(Answering):
    """Answers one request of the team `red`, which has then reached its limit."""

    def __init__(self) -> None:
        super().__init__()
        self.is_reached = False

    def is_resting(self, team: str) -> bool:
        return team == "red" and self.is_reached

    async def enter(self, team: str, until: float, stop: asyncio.Event) -> None:
        if self.is_resting(team):
            await stop.wait()
            raise Stopped

    async def ask(self, question: Question, until: float, stop: asyncio.Event) -> Answer:
        self.is_reached |= question.team == "red"
        return await super().ask(question, until, stop)


def test_a_team_at_its_limit_keeps_no_other_team_from_the_same_worker() -> None:
    async def run() -> None:
        bucket = Memory()
        limited = await add(bucket, 3, "red", created_at=1)
        await look(bucket)
        asking = Limited()
        settings = replace(SETTINGS, keep_seconds=0.0)
        stop = asyncio.Event()
        working = asyncio.create_task(Worker(settings, bucket, asking, WorkerMetrics()).run(stop))
        await bucket.rest()
        assert asking.is_reached
        other = await add(bucket, 3)
        await look(bucket)
        assert now_of(bucket, other)["status"] == "completed"
        stop.set()
        await asyncio.wait_for(working, 5)
        (held,) = await shards_of(bucket, limited["id"])
        assert (held.shard.state, held.shard.completed) == ("open", 1)

    asyncio.run(run())
