"""Answers are stored in parts and sealed without loading all of them into memory."""

import asyncio
import json

import pytest

from tests.unit.batch.memory import Memory
from workloads.batch import answers
from workloads.batch.answers import Answer, Kept, Parts, answered, read_parts, seal
from workloads.batch.records import Held, Shard
from workloads.common.pieces import Piece, contents_of

HELD = Held("batch_1", Shard(0, 0, 100, 1, 9), 0)


def answer(number: int, status: int = 200, text: str = "é\u2028\n\ud800") -> Answer:
    response = {"status_code": status, "request_id": "q", "body": {"text": text}}
    return answered(number, "batch_1", f"r{number}", response)


def test_a_sealed_shard_has_each_answer_once_in_the_order_of_requests() -> None:
    async def run() -> tuple[Memory, Held]:
        bucket = Memory()
        known: dict[int, Kept] = {}
        parts = Parts(bucket, HELD, 0.0, lambda some: known.update({x.number: x for x in some}))
        for some in ((answer(3), answer(1, 400)), (answer(4), answer(2))):
            for each in some:
                parts.add(each)
            await asyncio.sleep(0.01)
        await parts.close()
        assert len(await bucket.entries("work/batch_1/parts/")) == 2
        assert await read_parts(bucket, HELD) == known
        return bucket, await seal(bucket, HELD, known)

    bucket, held = asyncio.run(run())
    assert (held.shard.state, held.shard.completed, held.shard.failed) == ("sealed", 3, 1)
    output = [json.loads(each) for each in bucket.lines(held.shard.output)]
    assert [each["custom_id"] for each in output] == ["r2", "r3", "r4"]
    assert output[0]["response"]["body"] == {"text": "é\u2028\n\ud800"}
    (failure,) = bucket.lines(held.shard.errors)
    assert json.loads(failure)["custom_id"] == "r1"


def test_of_two_answers_to_a_request_the_first_counts() -> None:
    async def run() -> bytes:
        bucket = Memory()
        for number, text in enumerate(("first", "second")):
            name = f"work/batch_1/parts/00000/{number}"
            await bucket.write(name, answer(1, text=text).text())
        held = await seal(bucket, HELD, await read_parts(bucket, HELD))
        return bucket.objects[held.shard.output][0]

    assert json.loads(asyncio.run(run()))["response"]["body"] == {"text": "first"}


def test_large_answers_that_wait_for_a_write_leave_no_room_for_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answers, "_MOST_WAITING", 1000)

    async def run() -> None:
        parts = Parts(Memory(), HELD, 0.0, lambda _: None)
        parts.add(answer(1, text="x" * 2000))
        assert not parts.room.is_set()
        await asyncio.wait_for(parts.room.wait(), 5)
        await parts.close()

    asyncio.run(run())


def test_large_answers_are_kept_in_several_parts() -> None:
    async def run() -> None:
        bucket = Memory()
        parts = Parts(bucket, HELD, 0.0, lambda _: None)
        for number in range(1, 6):
            parts.add(answer(number, text="x" * (5 * 2**20)))
        await parts.close()
        sizes = [each.size >> 20 for each in await bucket.entries("work/batch_1/parts/")]
        assert sizes == [10, 10, 5]
        assert sorted(await read_parts(bucket, HELD)) == [1, 2, 3, 4, 5]

    asyncio.run(run())


def test_pieces_are_read_in_their_order_by_few_calls_and_little_at_a_time() -> None:
    size = 3 * 2**20
    objects = {name: bytes([number]) * (9 * size) for number, name in enumerate("ab")}
    reads: list[tuple[str, int]] = []

    def read(name: str, start: int, end: int) -> bytes:
        reads.append((name, end - start))
        return objects[name][start:end]

    pieces = [Piece("ab"[n % 2], n // 2 * size, (n // 2 + 1) * size) for n in range(18)]
    assert [each[:1] for each in contents_of(pieces, read)] == [b"\0", b"\1"] * 9
    assert len(reads) == 8
    assert max(size for _, size in reads) <= 16 * 2**20
