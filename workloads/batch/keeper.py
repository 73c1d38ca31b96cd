"""Advances batches: validates, finalizes, expires, cancels, and cleans up.

Every replica of the service checks every open batch and takes the batch's lease before a step. If a
replica crashes during a step, another repeats the step with the same result.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import AsyncGenerator
from typing import Any, Final

from workloads.common.bucket import Bucket, BucketError, Changed, Entry, Gone, reason
from workloads.common.cluster import ClusterError
from workloads.common.logs import say

from .answers import keep, read_parts, seal
from .asking import Question
from .engines import Engines
from .metrics import ServiceMetrics
from .records import (
    GONE,
    OVER,
    Batch,
    Held,
    add_shard,
    change_batch,
    change_shard,
    engine_of,
    fail,
    fail_without_input,
    file_metadata,
    file_name,
    new_owner,
    now,
    opened,
    read_batch,
    result_id,
    shards_of,
    work_prefix,
)
from .settings import Model, Settings
from .validation import LONGEST_LINE, Bounds, Checked, check
from .worker import expired, questions_of

_ABANDONED_SECONDS: Final = 600
"""Age after which an open marker without a batch is stale."""


class Keeper:
    """Advances the open batches of a bucket.

    Args:
        settings: Settings of the service.
        bucket: The bucket.
        metrics: Counts.
        engines: Jobs of own engines; by default, there are none.
    """

    def __init__(
        self,
        settings: Settings,
        bucket: Bucket,
        metrics: ServiceMetrics,
        engines: Engines | None = None,
    ) -> None:
        self._engines = engines or Engines({}, {})
        self._settings = settings
        self._bucket = bucket
        self._metrics = metrics
        self._name = new_owner()

    async def run(self, stop: asyncio.Event) -> None:
        """Poll until `stop` is set."""
        while not stop.is_set():
            try:
                await self._look()
            except Exception as error:  # noqa: BLE001 - the API goes on, and so does the next look
                say(logging.WARNING, "look failed", why=reason(error))
            with contextlib.suppress(TimeoutError):
                wait = self._settings.poll_seconds * random.uniform(0.5, 1)  # noqa: S311
                await asyncio.wait_for(stop.wait(), wait)

    async def _look(self) -> None:
        backlog = used = 0.0
        for entry in await self._bucket.entries("open/"):
            try:
                lines, share = await self._look_at(entry)
            except BucketError:
                raise
            except Exception as error:  # noqa: BLE001 - of one batch: the others go on
                say(logging.WARNING, "not looked at", object=entry.name, why=reason(error))
                continue
            backlog += lines
            used = max(used, share)
        self._metrics.backlog.set(backlog / self._settings.replicas)
        self._metrics.window_used.set(used)

    async def _look_at(self, entry: Entry) -> tuple[int, float]:
        """Advance a batch; return its open requests and the used share of its window."""
        found = opened(entry.name)
        if found is None:
            return 0, 0.0
        created, team, number = found
        batch = await read_batch(self._bucket, team, number)
        if batch is None:
            if now() - created > _ABANDONED_SECONDS:
                await self._bucket.delete(entry.name)
            return 0, 0.0
        shards = await shards_of(self._bucket, number)
        lines, used = 0, 0.0
        if batch["status"] not in OVER:
            window = batch["expires_at"] - batch["created_at"]
            used = (time.time() - batch["created_at"]) / window
        if batch["status"] in ("validating", "in_progress"):
            # workers of the pool take none of an own engine's
            lines = 0 if engine_of(batch) else _open_lines(batch, shards)
        engine = engine_of(batch)
        if engine and batch["status"] == "in_progress" and not _has_step(batch, shards):
            await self._run_engine(batch)
        if _has_step(batch, shards):
            await self._move_on(entry, batch, shards)
        return lines, used

    async def _run_engine(self, batch: Batch) -> None:
        """See to the job of a batch's own engine; without one that can end, the batch fails."""
        try:
            why = await self._engines.ensure(batch)
        except ClusterError as error:  # its window goes on, and so does the alert about it
            say(logging.WARNING, "no engine", batch=batch["id"], why=str(error))
            return
        if why is not None:
            say(logging.WARNING, "engine failed", batch=batch["id"], why=why)
            message = f"Not all requests were answered: {why}."
            error = {"code": "engine_failed", "message": message, "param": None, "line": None}
            await fail(self._bucket, batch, error)

    async def _move_on(self, entry: Entry, batch: Batch, shards: list[Held]) -> None:
        """Run the next step of a batch; a failure does not affect other batches."""
        try:
            async with self._lease(entry) as is_mine:
                if is_mine:
                    await self._step(entry, batch, shards)
        except Exception as error:  # noqa: BLE001 - of one batch
            say(logging.WARNING, "not moved on", batch=batch["id"], why=reason(error))

    @contextlib.asynccontextmanager
    async def _lease(self, entry: Entry) -> AsyncGenerator[bool]:
        """Hold the lease of a batch if it is free, and renew it until the end."""
        lease = self._settings.lease_seconds
        if float(entry.metadata.get("until", "0")) > time.time():
            yield False
            return

        async def hold(generation: int) -> int:
            metadata = {"owner": self._name, "until": str(time.time() + lease)}
            return await self._bucket.write(
                entry.name, b"", generation=generation, metadata=metadata
            )

        async def renew(generation: int) -> None:
            while True:
                await asyncio.sleep(lease / 3)
                with contextlib.suppress(BucketError):
                    generation = await hold(generation)

        try:
            generation = await hold(entry.generation)
        except Changed:
            yield False
            return
        renewing = asyncio.create_task(renew(generation))
        try:
            yield True
        finally:
            renewing.cancel()
            with contextlib.suppress(asyncio.CancelledError, Changed):
                await renewing

    async def _step(self, entry: Entry, batch: Batch, shards: list[Held]) -> None:
        status = batch["status"]
        if status == "validating":
            await self._validate(batch)
        elif status == "in_progress":
            ending = "completed" if _are_sealed(shards) else "expired"
            await self._change(
                batch, ("in_progress",), status="finalizing", ending=ending, finalizing_at=now()
            )
        elif status in OVER:
            if engine_of(batch):
                await self._engines.end(batch)
            await self._bucket.delete_all(f"{work_prefix(batch['id'])}/")
            await self._bucket.delete(entry.name)
            return
        elif _are_sealed(shards):
            await self._finalize(batch, shards)
        else:
            for held in shards:
                if held.shard.is_free():
                    await self._seal(batch, held)
        await self._again(entry)

    async def _again(self, entry: Entry) -> None:
        """Release the lease, so that the next step does not wait for its expiry."""
        await self._bucket.write(entry.name, b"", metadata={"until": "0"})

    async def _change(self, batch: Batch, statuses: tuple[str, ...], **changes: Any) -> None:
        changed = await change_batch(self._bucket, batch["team"], batch["id"], statuses, **changes)
        if changed is None or changed["status"] != changes["status"]:
            return
        say(logging.INFO, changed["status"], batch=batch["id"])
        if changed["status"] in OVER:
            self._metrics.ended(changed["status"])

    async def _validate(self, batch: Batch) -> None:
        """Validate every request of a batch, and distribute them to shards."""
        name = file_name(batch["team"], batch["input_file_id"])
        settings = self._settings
        bounds = Bounds(
            endpoint=batch["endpoint"],
            models=models_of(settings, batch["team"]),
            max_lines=settings.max_lines,
            shard_bytes=settings.shard_bytes,
            shard_lines=settings.shard_lines,
        )

        def checked() -> Checked:
            return check(self._bucket.lines(name, LONGEST_LINE), bounds)

        try:
            found = await self._bucket.run_in_thread(checked)
        except Gone:
            found = Checked(errors=[GONE])
        if found.errors:
            await self._change(
                batch,
                ("validating",),
                status="failed",
                failed_at=now(),
                errors={"object": "list", "data": found.errors},
            )
            return
        for shard in found.shards:
            await add_shard(self._bucket, batch["id"], shard)
        await self._change(
            batch,
            ("validating",),
            status="in_progress",
            in_progress_at=now(),
            engine=found.engine,
            request_counts={"total": found.total, "completed": 0, "failed": 0},
        )

    async def _seal(self, batch: Batch, held: Held) -> None:
        """Seal a shard that no worker has, with its stored answers."""
        until = time.time() + self._settings.lease_seconds
        try:
            mine = await change_shard(
                self._bucket, held, state="running", owner=new_owner(), until=until
            )
            known = await read_parts(self._bucket, mine)
            if batch["ending"] == "expired":
                questions = await self._questions(batch, mine)
                late = [expired(each) for each in questions if each.number not in known]
                known |= {each.number: each for each in await keep(self._bucket, mine, late)}
            await seal(self._bucket, mine, known)
        except Changed:
            return

    async def _questions(self, batch: Batch, held: Held) -> list[Question]:
        """Return the requests of a shard; empty if they are gone, which fails the batch."""
        try:
            return await questions_of(self._bucket, batch, held)
        except Gone:
            await fail_without_input(self._bucket, batch)
            say(logging.WARNING, "input is gone", batch=batch["id"])
            return []

    async def _finalize(self, batch: Batch, shards: list[Held]) -> None:
        """Create the files of a batch with all shards sealed, and end it."""
        files: dict[str, str | None] = {}
        for kind in ("output", "errors"):
            parts = [name for each in shards if (name := getattr(each.shard, kind))]
            files[kind] = await self._compose(batch, kind, parts) if parts else None
        ending = "cancelled" if batch["status"] == "cancelling" else batch["ending"]
        counts = {
            "total": batch["request_counts"]["total"],
            "completed": sum(each.shard.completed for each in shards),
            "failed": sum(each.shard.failed for each in shards),
        }
        changes = {
            f"{ending}_at": now(),
            "error_file_id": files["errors"],
            "output_file_id": files["output"],
            "request_counts": counts,
        }
        await self._change(batch, (batch["status"],), status=ending, **changes)

    async def _compose(self, batch: Batch, kind: str, parts: list[str]) -> str:
        """Create a file of a batch and return its ID; repeated calls return the same ID."""
        number = result_id(batch["id"], kind)
        await self._bucket.compose(
            parts,
            file_name(batch["team"], number),
            f"{work_prefix(batch['id'])}/composed/{kind}",
            file_metadata("batch_output", f"{batch['id']}_{kind}.jsonl", batch["output_seconds"]),
        )
        return number


def models_of(settings: Settings, team: str) -> dict[str, Model]:
    """Return the names that a team may use."""
    allowed = None if settings.teams is None else settings.teams.get(team, ())
    return {
        name: model for name, model in settings.models.items() if allowed is None or name in allowed
    }


def _are_sealed(shards: list[Held]) -> bool:
    return all(each.shard.state == "sealed" for each in shards)


def _open_lines(batch: Batch, shards: list[Held]) -> int:
    """Return the number of unanswered requests of a batch; 1 until they are counted."""
    if batch["status"] == "validating":
        return 1
    done = sum(each.shard.completed + each.shard.failed for each in shards)
    return max(0, batch["request_counts"]["total"] - done)


def _has_step(batch: Batch, shards: list[Held]) -> bool:
    """Return whether a batch has a step to run now."""
    status = batch["status"]
    if status == "in_progress":
        return _are_sealed(shards) or time.time() >= batch["expires_at"]
    if status in ("finalizing", "cancelling"):
        return _are_sealed(shards) or any(each.shard.is_free() for each in shards)
    return True
