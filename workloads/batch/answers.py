"""Answers of a shard: kept as they come, read again after a death, and sealed once each."""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from .bucket import Bucket, BucketError, Changed
from .logs import say
from .records import Held, change_shard, work_prefix

_FIRST_WAIT: Final = 0.5
_LONGEST_WAIT: Final = 15.0


@dataclass(frozen=True)
class Answer:
    """What became of one request."""

    number: int
    """Of its line in the input, from 1."""
    is_good: bool
    """Whether it belongs into the output, and not into the file of failures."""
    line: dict[str, Any]
    """Line of that file."""

    def text(self) -> bytes:
        """Return the answer as a line of a part."""
        return _line([self.number, self.is_good, self.line])

    @classmethod
    def of(cls, text: bytes) -> "Answer":
        """Return the answer of a line of a part."""
        return cls(*json.loads(text))


def answered(number: int, batch: str, custom_id: str, response: dict[str, Any]) -> Answer:
    """Return the answer to a request that an engine answered, whatever it said."""
    line = {"custom_id": custom_id, "response": response, "error": None}
    is_good = 200 <= response["status_code"] < 300
    return Answer(number, is_good, {"id": request_id(batch, number), **line})


def unanswered(number: int, batch: str, custom_id: str, code: str, message: str) -> Answer:
    """Return the answer to a request that nobody answered."""
    error = {"code": code, "message": message}
    line = {"custom_id": custom_id, "response": None, "error": error}
    return Answer(number, False, {"id": request_id(batch, number), **line})


def request_id(batch: str, number: int) -> str:
    """Return the id of a request, the same however often it is sent."""
    return f"batch_req_{batch.removeprefix('batch_')}{number:05d}"


def _line(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"


async def read_parts(bucket: Bucket, held: Held) -> dict[int, Answer]:
    """Return what is kept of a shard by the numbers of lines: of two answers to one, the first."""
    entries = await bucket.entries(f"{_parts(held)}/")
    found: dict[int, Answer] = {}
    for entry in entries:
        kept = await bucket.read(entry.name)
        for text in (kept[0] if kept is not None else b"").splitlines():
            answer = Answer.of(text)
            found.setdefault(answer.number, answer)
    return found


def _parts(held: Held) -> str:
    return f"{work_prefix(held.batch)}/parts/{held.shard.index:05d}"


class Parts:
    """Keeps answers soon after they come: one write takes all that came during the last.

    Args:
        bucket: Where.
        held: The shard.
        keep_seconds: Shortest time between two writes.
        kept: Takes the answers of a write.
    """

    def __init__(
        self,
        bucket: Bucket,
        held: Held,
        keep_seconds: float,
        kept: Callable[[list[Answer]], None],
    ) -> None:
        self._bucket = bucket
        self._name = f"{_parts(held)}/{held.generation:020d}"
        self._keep_seconds = keep_seconds
        self._kept = kept
        self._waiting: list[Answer] = []
        self._came = asyncio.Event()
        self._closed = False
        self._number = 0
        self._task = asyncio.create_task(self._write())

    def add(self, answer: Answer) -> None:
        """Keep an answer."""
        self._waiting.append(answer)
        self._came.set()

    async def close(self) -> None:
        """Return once everything is kept."""
        self._closed = True
        self._came.set()
        await self._task

    async def abandon(self) -> None:
        """Keep nothing more: the shard is another's."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _write(self) -> None:
        while not (self._closed and not self._waiting):
            await self._came.wait()
            self._came.clear()
            if not self._waiting:
                continue
            some, self._waiting = self._waiting, []
            began = time.monotonic()
            await self._keep(some)
            self._kept(some)
            if not self._closed:
                await asyncio.sleep(max(0.0, self._keep_seconds - time.monotonic() + began))

    async def _keep(self, some: list[Answer]) -> None:
        """Write a part, again and again: the model is not asked twice because a write fails."""
        self._number += 1
        name = f"{self._name}-{self._number:06d}"
        content = b"".join(answer.text() for answer in some)
        wait = _FIRST_WAIT
        while True:
            try:
                await self._bucket.write(name, content, generation=0)
            except Changed:
                return  # this write, sent twice: nobody else has the name
            except BucketError as error:
                say(logging.WARNING, "answers not kept yet", object=name, why=str(error))
            else:
                return
            await asyncio.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)


async def seal(bucket: Bucket, held: Held, answers: Mapping[int, Answer]) -> Held:
    """Write the answers of a shard, one a line in the order of its requests, and close it.

    The two objects have names of their own, so what a process wrote that lost the shard is never
    part of a result: only the change of the shard makes them count.

    Raises:
        Changed: The shard is another's by now.
    """
    ordered = [answers[number] for number in sorted(answers)]
    good = [each for each in ordered if each.is_good]
    bad = [each for each in ordered if not each.is_good]
    prefix = f"{work_prefix(held.batch)}/sealed/{held.shard.index:05d}-{held.generation}"
    output = await _write(bucket, f"{prefix}-output", good)
    errors = await _write(bucket, f"{prefix}-errors", bad)
    return await change_shard(
        bucket,
        held,
        state="sealed",
        until=0.0,
        completed=len(good),
        failed=len(bad),
        output=output,
        errors=errors,
    )


async def _write(bucket: Bucket, name: str, answers: Iterable[Answer]) -> str:
    content = b"".join(_line(each.line) for each in answers)
    if not content:
        return ""
    await bucket.write(name, content)
    return name
