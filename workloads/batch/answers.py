"""Answers of a shard: stored as they arrive, read again after a crash, and sealed once."""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from workloads.common.bucket import Bucket, BucketError, Changed
from workloads.common.logs import say
from workloads.common.pieces import Piece

from .records import Held, change_shard, work_prefix

_FIRST_WAIT: Final = 0.5
_LONGEST_WAIT: Final = 15.0
_PART_BYTES: Final = 8 * 2**20
"""Size of a part above which the next answer starts another part, in bytes."""
_MOST_WAITING: Final = 8 * 2**20
"""Size of answers waiting for a write above which no further request starts, in bytes."""
_LONGEST_HEAD: Final = 32


@dataclass(frozen=True)
class Answer:
    """Outcome of one request."""

    number: int
    """Number of its line in the input, from 1."""
    is_good: bool
    """Whether it belongs in the output instead of the error file."""
    line: bytes
    """Line of that file, with its end."""

    def text(self) -> bytes:
        """Return the answer as a line of a part."""
        return _head(self.number, self.is_good) + self.line


@dataclass(frozen=True)
class Kept:
    """An answer in a part; its line may be large, so it stays there until the shard is sealed."""

    number: int
    is_good: bool
    line: Piece


def answered(number: int, batch: str, custom_id: str, response: dict[str, Any]) -> Answer:
    """Return the answer for a request that an engine answered, including errors."""
    line = {"custom_id": custom_id, "response": response, "error": None}
    is_good = 200 <= response["status_code"] < 300
    return Answer(number, is_good, _line({"id": request_id(batch, number), **line}))


def unanswered(number: int, batch: str, custom_id: str, code: str, message: str) -> Answer:
    """Return the answer for a request without a response."""
    error = {"code": code, "message": message}
    line = {"custom_id": custom_id, "response": None, "error": error}
    return Answer(number, False, _line({"id": request_id(batch, number), **line}))


def request_id(batch: str, number: int) -> str:
    """Return the ID of a request, which is the same for every attempt."""
    return f"batch_req_{batch.removeprefix('batch_')}{number:05d}"


def _line(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"


def _head(number: int, is_good: bool) -> bytes:
    return b"%d %d " % (number, is_good)


async def read_parts(bucket: Bucket, held: Held) -> dict[int, Kept]:
    """Return the stored answers of a shard by line number; the first of duplicates wins."""
    entries = await bucket.entries(f"{_parts(held)}/")

    def found() -> dict[int, Kept]:
        known: dict[int, Kept] = {}
        for entry in entries:
            at = 0
            for text in bucket.lines(entry.name):
                number, is_good, _ = text[:_LONGEST_HEAD].split(b" ", 2)
                start, at = at + len(number) + len(is_good) + 2, at + len(text)
                kept = Kept(int(number), is_good == b"1", Piece(entry.name, start, at))
                known.setdefault(kept.number, kept)
        return known

    return await bucket.run_in_thread(found)


async def keep(bucket: Bucket, held: Held, answers: Sequence[Answer]) -> list[Kept]:
    """Store answers in a new part."""
    if not answers:
        return []
    content, kept = _part(f"{_parts(held)}/{held.generation:020d}-rest", answers)
    with contextlib.suppress(Changed):  # this write, sent twice: nobody else has the name
        await bucket.write(kept[0].line.name, content, generation=0)
    return kept


def _part(name: str, answers: Iterable[Answer]) -> tuple[bytes, list[Kept]]:
    """Return the content of a part, and the positions of its answers."""
    texts: list[bytes] = []
    kept: list[Kept] = []
    at = 0
    for answer in answers:
        head = _head(answer.number, answer.is_good)
        start = at + len(head)
        at = start + len(answer.line)
        kept.append(Kept(answer.number, answer.is_good, Piece(name, start, at)))
        texts += (head, answer.line)
    return b"".join(texts), kept


def _parts(held: Held) -> str:
    return f"{work_prefix(held.batch)}/parts/{held.shard.index:05d}"


class Parts:
    """Stores answers soon after they arrive: each write takes everything since the last one.

    Args:
        bucket: Bucket to store them in.
        held: Shard of the answers.
        keep_seconds: Shortest time between two writes.
        kept: Called with the answers that a write stored.
    """

    def __init__(
        self,
        bucket: Bucket,
        held: Held,
        keep_seconds: float,
        kept: Callable[[list[Kept]], None],
    ) -> None:
        self._bucket = bucket
        self._name = f"{_parts(held)}/{held.generation:020d}"
        self._keep_seconds = keep_seconds
        self._kept = kept
        self._waiting: list[Answer] = []
        self._bytes = 0
        self.room = asyncio.Event()
        """Set while so few bytes wait for a write that more requests may start."""
        self.room.set()
        self._came = asyncio.Event()
        self._closed = False
        self._number = 0
        self._task = asyncio.create_task(self._write())

    def add(self, answer: Answer) -> None:
        """Store a response."""
        self._waiting.append(answer)
        self._bytes += len(answer.line)
        if self._bytes > _MOST_WAITING:
            self.room.clear()
        self._came.set()

    async def close(self) -> None:
        """Return once everything is stored."""
        self._closed = True
        self._came.set()
        await self._task

    async def abandon(self) -> None:
        """Stop storing: another worker has the shard."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _write(self) -> None:
        while not (self._closed and not self._waiting):
            await self._came.wait()
            self._came.clear()
            if not self._waiting:
                continue
            some = self._next()
            began = time.monotonic()
            self._kept(await self._keep(some))
            self._bytes -= sum(len(answer.line) for answer in some)
            if self._bytes <= _MOST_WAITING:
                self.room.set()
            if not self._closed and self._bytes < _PART_BYTES:
                await asyncio.sleep(max(0.0, self._keep_seconds - time.monotonic() + began))

    def _next(self) -> list[Answer]:
        """Return the answers of the next part."""
        count = size = 0
        while count < len(self._waiting) and size <= _PART_BYTES:
            size += len(self._waiting[count].line)
            count += 1
        some, self._waiting = self._waiting[:count], self._waiting[count:]
        if self._waiting:
            self._came.set()
        return some

    async def _keep(self, some: list[Answer]) -> list[Kept]:
        """Write a part, with retries, so that a failed write does not repeat the request."""
        self._number += 1
        name = f"{self._name}-{self._number:06d}"
        content, kept = _part(name, some)
        wait = _FIRST_WAIT
        while True:
            try:
                await self._bucket.write(name, content, generation=0)
            except Changed:
                return kept  # this write, sent twice: nobody else has the name
            except BucketError as error:
                say(logging.WARNING, "answers not kept yet", object=name, why=str(error))
            else:
                return kept
            await asyncio.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)


async def seal(bucket: Bucket, held: Held, known: Mapping[int, Kept]) -> Held:
    """Write the answers of a shard, one per line in the order of its requests, and close it.

    The two objects have names of their own, so what a process wrote that lost the shard is never
    part of a result: only the change of the shard makes them count.

    Raises:
        Changed: Another worker has the shard by now.
    """
    ordered = [known[number] for number in sorted(known)]
    good = [each.line for each in ordered if each.is_good]
    bad = [each.line for each in ordered if not each.is_good]
    prefix = f"{work_prefix(held.batch)}/sealed/{held.shard.index:05d}-{held.generation}"
    output = await _join(bucket, f"{prefix}-output", good)
    errors = await _join(bucket, f"{prefix}-errors", bad)
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


async def _join(bucket: Bucket, name: str, lines: Sequence[Piece]) -> str:
    if not lines:
        return ""
    await bucket.join(name, lines)
    return name
