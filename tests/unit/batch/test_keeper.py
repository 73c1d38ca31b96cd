"""Progress of batches: a failing batch does not affect others."""

import asyncio
import json
import time
from typing import Any

from tests.unit.batch.memory import Memory
from workloads.batch.keeper import Keeper
from workloads.batch.metrics import ServiceMetrics
from workloads.batch.records import (
    Batch,
    Shard,
    add_shard,
    batch_name,
    file_name,
    new_batch,
    now,
    open_name,
)
from workloads.batch.settings import Model, Settings

PATH = "/v1/completions"
USED = "gke_inference_batch_window_used_ratio"
SETTINGS = Settings("b", "http://g", {"llama": Model((PATH,))}, poll_seconds=0.01)


def line(number: int) -> bytes:
    request = {"custom_id": f"r{number}", "method": "POST", "url": PATH, "body": {"model": "llama"}}
    return json.dumps(request).encode() + b"\n"


async def add(bucket: Memory, count: int = 1, team: str = "everyone", **changes: Any) -> Batch:
    """Return a new batch with its input."""
    batch = {**new_batch(team, PATH, "file-1", 3600, None), **changes}
    await bucket.write(file_name(team, "file-1"), b"".join(line(n) for n in range(count)))
    await bucket.write(batch_name(team, batch["id"]), json.dumps(batch).encode())
    await bucket.write(open_name(batch["created_at"], team, batch["id"]), b"")
    return batch


def now_of(bucket: Memory, batch: Batch) -> Batch:
    return json.loads(bucket.objects[batch_name("everyone", batch["id"])][0])


async def look(bucket: Memory) -> ServiceMetrics:
    """Let a keeper look until it changes nothing."""
    metrics = ServiceMetrics()
    stop = asyncio.Event()
    keeping = asyncio.create_task(Keeper(SETTINGS, bucket, metrics).run(stop))
    await bucket.rest()
    stop.set()
    await keeping
    return metrics


def test_a_batch_that_cannot_be_read_and_what_others_put_there_stop_no_batch() -> None:
    async def run() -> None:
        bucket = Memory()
        await bucket.write("open/README", b"")
        await bucket.write("open/x/y/z", b"")
        await bucket.write(batch_name("everyone", "batch_0"), b"[")
        await bucket.write(open_name(1, "everyone", "batch_0"), b"")
        batch = await add(bucket)
        await look(bucket)
        assert now_of(bucket, batch)["status"] == "in_progress"

    asyncio.run(run())


def test_a_batch_whose_input_is_gone_when_its_window_ends_fails_with_that_error() -> None:
    async def run() -> None:
        bucket = Memory()
        batch = await add(bucket)
        await look(bucket)
        found = now_of(bucket, batch)
        await bucket.write(
            batch_name("everyone", batch["id"]), json.dumps({**found, "expires_at": 1}).encode()
        )
        await bucket.delete(file_name("everyone", "file-1"))
        await look(bucket)
        over = now_of(bucket, batch)
        assert over["status"] == "failed"
        assert [each["code"] for each in over["errors"]["data"]] == ["input_file_not_found"]
        assert over["failed_at"] >= over["finalizing_at"]
        assert await bucket.entries("open/") == await bucket.entries("work/") == []

    asyncio.run(run())


def test_the_use_of_the_window_counts_batches_that_do_not_come_to_their_end() -> None:
    async def run() -> None:
        bucket = Memory()
        batch = await add(bucket, status="finalizing", created_at=now() - 1800)
        shard = Shard(0, 0, 1, 1, 1, state="running", owner="x", until=time.time() + 60)
        await add_shard(bucket, batch["id"], shard)
        text = (await look(bucket)).text().decode()
        (used,) = [each for each in text.splitlines() if each.startswith(USED)]
        assert 0.3 < float(used.rpartition(" ")[2]) < 0.4

    asyncio.run(run())
