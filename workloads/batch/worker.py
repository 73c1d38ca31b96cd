"""The worker: takes a shard, sends its requests, stores the answers, and stops on request."""

import asyncio
import json
import logging
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from workloads.common.bucket import Bucket, BucketError, Changed, Gone, reason
from workloads.common.logs import say

from .answers import Answer, Kept, Parts, keep, read_parts, seal, unanswered
from .asking import Asking, Question, Stopped
from .metrics import WorkerMetrics
from .records import (
    Batch,
    Held,
    change_shard,
    engine_of,
    fail_without_input,
    file_name,
    new_owner,
    opened,
    read_batch,
    shards_of,
)
from .settings import Settings

EXPIRED: Final = (
    "batch_expired",
    "This request could not be executed before the completion window expired.",
)
_RENEWALS: Final = 4
"""Renewals in the time of a lease."""
_LONGEST_CRAWL: Final = 15.0


@dataclass
class _Work:
    """A shard that this worker has."""

    held: Held
    batch: Batch
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    """No more requests start."""
    fed: asyncio.Event = field(default_factory=asyncio.Event)
    """Every request has begun: there may be room for another shard."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """The lease is not needed any more."""
    is_lost: bool = False
    """Another process has it."""
    completed: int = 0
    failed: int = 0


class Worker:
    """Processes the open batches of a bucket, or `only` the batch of its own engine."""

    def __init__(
        self,
        settings: Settings,
        bucket: Bucket,
        asking: Asking,
        metrics: WorkerMetrics,
        only: str | None = None,
    ) -> None:
        self._only = only
        self._settings = settings
        self._bucket = bucket
        self._asking = asking
        self._metrics = metrics
        self._works: dict[asyncio.Task[None], _Work] = {}
        self._draining = False
        self._paused_until = 0.0

    @property
    def is_draining(self) -> bool:
        """Whether the worker takes no more work."""
        return self._draining

    async def run(self, stop: asyncio.Event) -> bool:
        """Work until `stop` is set or the only batch needs no worker, then finish the requests.

        Returns:
            Whether the only batch needs no worker any more.
        """
        is_over = False
        wait = self._settings.poll_seconds
        while not stop.is_set() and not is_over:
            pause = self._paused_until - time.monotonic()
            if pause > 0:
                await _either(stop, seconds=pause)
                continue
            try:
                work = await self._take()
                is_over = work is None and not self._works and await self._is_over()
                wait = self._settings.poll_seconds
            except BucketError as error:
                say(logging.WARNING, "no bucket", why=str(error))
                work, wait = None, min(2 * wait, _LONGEST_CRAWL)
            if work is None and not is_over:
                await _either(stop, seconds=wait * random.uniform(0.5, 1))  # noqa: S311
            if work is None:
                continue
            task = asyncio.create_task(self._work(work))
            self._works[task] = work
            task.add_done_callback(self._works.pop)
            await _either(stop, work.fed)
        self._draining = True
        for work in self._works.values():
            work.stop.set()
        say(logging.INFO, "draining", shards=len(self._works))
        if self._works:
            await asyncio.wait(set(self._works))
        return is_over

    async def _is_over(self) -> bool:
        """Return whether the only batch needs no worker: it has ended, or all has its answer."""
        if self._only is None:
            return False
        for entry in await self._bucket.entries("open/"):
            looked = await self._open_batch(entry.name)
            if looked is not None:
                return all(each.shard.state == "sealed" for each in looked[1])
        return True

    async def _take(self) -> _Work | None:
        """Return a free shard of the team with the fewest running shards, oldest first."""
        found: list[tuple[Batch, list[Held]]] = []
        running: Counter[str] = Counter()
        for entry in await self._bucket.entries("open/"):
            try:
                looked = await self._open_batch(entry.name)
            except BucketError:
                raise
            except Exception as error:  # noqa: BLE001 - of one batch: the others go on
                say(logging.WARNING, "not looked at", object=entry.name, why=reason(error))
                continue
            if looked is None:
                continue
            batch, shards = looked
            running[batch["team"]] += sum(1 for each in shards if _is_at_work(each))
            if self._asking.is_resting(batch["team"]):
                continue
            free = [each for each in shards if each.shard.is_free()]
            if free and time.time() < batch["expires_at"]:
                found.append((batch, free))
        found.sort(key=lambda each: running[each[0]["team"]])  # stable: older ones first
        for batch, free in found:
            for held in free:
                taken = await self._claim(held)
                if taken is not None:
                    return _Work(taken, batch)
        return None

    async def _open_batch(self, name: str) -> tuple[Batch, list[Held]] | None:
        """Return a batch with its shards, or None if it has no work."""
        match opened(name):
            case (_, team, number) if self._only in (None, number):
                batch = await read_batch(self._bucket, team, number)
            case _:
                return None
        if batch is None or batch["status"] != "in_progress":
            return None
        if self._only is None and engine_of(batch):
            return None  # the worker beside the engine takes it
        return batch, await shards_of(self._bucket, number)

    async def _claim(self, held: Held) -> Held | None:
        until = time.time() + self._settings.lease_seconds
        try:
            return await change_shard(
                self._bucket, held, state="running", owner=new_owner(), until=until
            )
        except Changed:
            return None

    async def _work(self, work: _Work) -> None:
        """Answer the unanswered requests of a shard."""
        shard = work.held.shard
        say(logging.INFO, "begins", batch=work.held.batch, shard=shard.index)
        renewing = asyncio.create_task(self._renew(work))
        try:
            await self._answer_all(work, renewing)
        except Changed:
            say(logging.INFO, "lost", batch=work.held.batch, shard=shard.index)
        except Exception as error:  # noqa: BLE001 - its lease ends by itself
            say(
                logging.WARNING,
                "given up",
                batch=work.held.batch,
                shard=shard.index,
                why=reason(error),
            )
        finally:
            work.fed.set()
            work.over.set()
            await renewing

    async def _answer_all(self, work: _Work, renewing: "asyncio.Task[None]") -> None:
        try:
            questions = await questions_of(self._bucket, work.batch, work.held)
        except Gone:  # no worker can do more for this batch: the service ends it
            await fail_without_input(self._bucket, work.batch)
            await self._let_go(work, renewing)
            await change_shard(self._bucket, work.held, state="open", until=0.0)
            say(logging.WARNING, "input is gone", batch=work.held.batch)
            return
        known = await read_parts(self._bucket, work.held)
        work.completed = sum(each.is_good for each in known.values())
        work.failed = len(known) - work.completed

        def kept(some: list[Kept]) -> None:
            for answer in some:
                known[answer.number] = answer
                work.completed += answer.is_good
                work.failed += not answer.is_good
                self._metrics.answered(answer.is_good)

        parts = Parts(self._bucket, work.held, self._settings.keep_seconds, kept)
        todo = [each for each in questions if each.number not in known]
        tasks: set[asyncio.Task[None]] = set()
        for question in todo:
            await _either(parts.room, work.stop)
            try:
                if self._asking.is_resting(question.team):
                    work.fed.set()  # a limit of one team is none of the others
                await self._asking.enter(question.team, work.batch["expires_at"], work.stop)
            except Stopped:
                break
            task = asyncio.create_task(self._ask(question, work, parts))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        work.fed.set()
        if tasks:
            await asyncio.wait(set(tasks))
        if work.is_lost:
            await parts.abandon()
            return
        await parts.close()
        await self._let_go(work, renewing)
        await self._finish(work, questions, known)

    async def _let_go(self, work: _Work, renewing: "asyncio.Task[None]") -> None:
        """Renew the lease no more: a renewal on its way would be another generation."""
        work.over.set()
        await renewing

    async def _finish(self, work: _Work, questions: list[Question], known: dict[int, Kept]) -> None:
        """Seal a shard that is done or whose batch ends; return any other shard."""
        if work.is_lost:
            return
        open_ones = [each for each in questions if each.number not in known]
        if open_ones:
            batch = await read_batch(self._bucket, work.batch["team"], work.held.batch)
            is_over = batch is not None and batch["status"] != "in_progress"
            if batch is None or not is_over:
                await change_shard(
                    self._bucket,
                    work.held,
                    state="open",
                    until=0.0,
                    completed=work.completed,
                    failed=work.failed,
                )
                say(logging.INFO, "returned", batch=work.held.batch, shard=work.held.shard.index)
                # what made it come back may do so again at once
                self._paused_until = time.monotonic() + self._settings.poll_seconds
                return
            if batch["ending"] == "expired":
                rest = await keep(self._bucket, work.held, [expired(each) for each in open_ones])
                known |= {each.number: each for each in rest}
        await seal(self._bucket, work.held, known)
        say(logging.INFO, "sealed", batch=work.held.batch, shard=work.held.shard.index)

    async def _ask(self, question: Question, work: _Work, parts: Parts) -> None:
        began = time.monotonic()
        try:
            answer = await self._asking.ask(question, work.batch["expires_at"], work.stop)
        except Stopped:
            return
        except Exception as error:  # noqa: BLE001 - of one request: the others go on
            say(logging.WARNING, "not answered", batch=question.batch, why=reason(error))
            return
        self._metrics.seconds.observe(time.monotonic() - began)
        parts.add(answer)

    async def _renew(self, work: _Work) -> None:
        """Renew the lease, and check whether the batch continues."""
        lease = self._settings.lease_seconds
        ends = work.held.shard.until
        while not work.over.is_set():
            await _either(work.over, seconds=lease / _RENEWALS)
            if work.over.is_set():
                return
            try:
                batch = await read_batch(self._bucket, work.batch["team"], work.held.batch)
                if batch is None or batch["status"] != "in_progress":
                    work.stop.set()
                ends = time.time() + lease
                work.held = await change_shard(
                    self._bucket,
                    work.held,
                    until=ends,
                    completed=work.completed,
                    failed=work.failed,
                )
            except Changed:
                work.is_lost = True
            except Exception as error:  # noqa: BLE001 - the next renewal may do
                say(logging.WARNING, "lease not renewed", why=reason(error))
                work.is_lost = time.time() > ends
            if work.is_lost:
                work.stop.set()
                return


def expired(question: Question) -> Answer:
    """Return the answer for a request that expired with its batch."""
    return unanswered(question.number, question.batch, question.custom_id, *EXPIRED)


async def questions_of(bucket: Bucket, batch: Batch, held: Held) -> list[Question]:
    """Return the requests of a shard.

    Raises:
        Gone: There is no input any more.
    """
    shard = held.shard
    name = file_name(batch["team"], batch["input_file_id"])
    raw = await bucket.read_range(name, shard.start, shard.end)
    found: list[Question] = []
    for number, text in enumerate(raw.split(b"\n"), start=shard.first):
        if text.strip():
            line: dict[str, Any] = json.loads(text)
            question = Question(
                batch["team"], batch["id"], number, line["custom_id"], line["url"], line["body"]
            )
            found.append(question)
    return found


def _is_at_work(held: Held) -> bool:
    return held.shard.state == "running" and not held.shard.is_free()


async def _either(*events: asyncio.Event, seconds: float | None = None) -> None:
    """Wait until one of some events is set, or so long."""
    tasks = {asyncio.create_task(event.wait()) for event in events}
    await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
