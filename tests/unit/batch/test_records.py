"""Changes of a shard when responses of the bucket are lost."""

import asyncio

import pytest

from tests.unit.batch.memory import Memory
from workloads.batch.records import Held, Shard, add_shard, change_shard, shards_of
from workloads.common.bucket import BucketError, Changed

SHARD = Shard(0, 0, 100, 1, 9)


class Deaf(Memory):
    """Takes a write and loses its answer, with what the client makes of that next."""

    lost: Exception | None = None

    async def write(
        self,
        name: str,
        content: bytes,
        *,
        generation: int | None = None,
        kind: str = "application/json",
        metadata: dict[str, str] | None = None,
    ) -> int:
        written = await super().write(
            name, content, generation=generation, kind=kind, metadata=metadata
        )
        lost, self.lost = self.lost, None
        if lost is not None:
            raise lost
        return written


async def claimed(bucket: Memory) -> Held:
    """Return a new shard that somebody has."""
    await add_shard(bucket, "batch_1", SHARD)
    (held,) = await shards_of(bucket, "batch_1")
    return await change_shard(bucket, held, state="running", owner="me", until=2e9)


def test_a_change_that_was_sent_twice_is_no_loss_of_the_lease() -> None:
    async def run() -> None:
        bucket = Deaf()
        held = await claimed(bucket)
        bucket.lost = Changed()
        held = await change_shard(bucket, held, until=3e9)
        held = await change_shard(bucket, held, state="sealed")
        assert await shards_of(bucket, "batch_1") == [held]

    asyncio.run(run())


def test_a_change_behind_one_whose_answer_was_lost_counts() -> None:
    async def run() -> None:
        bucket = Deaf()
        held = await claimed(bucket)
        bucket.lost = BucketError()
        with pytest.raises(BucketError):
            await change_shard(bucket, held, until=3e9)
        held = await change_shard(bucket, held, until=4e9)
        assert await shards_of(bucket, "batch_1") == [held]

    asyncio.run(run())


def test_a_shard_of_another_lease_is_not_changed() -> None:
    async def run() -> None:
        bucket = Deaf()
        held = await claimed(bucket)
        other = await change_shard(bucket, held, owner="other")
        with pytest.raises(Changed):
            await change_shard(bucket, held, state="sealed")
        assert await shards_of(bucket, "batch_1") == [other]

    asyncio.run(run())
