"""The records in the bucket and their public form: files, batches, and shards of batches.

files/TEAM/FILE              a file; its metadata has the rest
batches/TEAM/BATCH           a batch, as a document
open/TIME/TEAM/BATCH         a batch that is not over; who moves it on has its lease
work/BATCH/shards/0007       a share of its requests; the worker that has it, or its results
work/BATCH/parts/0007/...    answers of a shard, as they come
work/BATCH/sealed/0007-...   all answers of a shard, once each
"""

import json
import os
import secrets
import socket
import time
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from workloads.common.bucket import Bucket, Changed, Entry

OVER: Final = ("cancelled", "completed", "expired", "failed")
"""Final statuses of a batch."""
EVERYONE: Final = "everyone"
"""Team of all files if clients have no teams."""
_TRIES: Final = 8


def now() -> int:
    """Return the time in whole seconds, as in the API."""
    return int(time.time())


def new_id(prefix: str) -> str:
    """Return an ID; IDs sort by time of creation."""
    return f"{prefix}{time.time_ns() // 1_000_000:012x}{secrets.token_hex(6)}"


def file_name(team: str, file: str) -> str:
    """Return the object of a file."""
    return f"files/{team}/{file}"


def batch_name(team: str, batch: str) -> str:
    """Return the object of a batch."""
    return f"batches/{team}/{batch}"


def open_name(created: int, team: str, batch: str) -> str:
    """Return the name of the object that marks a batch as open."""
    return f"open/{created:011d}/{team}/{batch}"


def opened(name: str) -> tuple[int, str, str] | None:
    """Return time, team and ID of an open batch; None for a foreign object."""
    match name.split("/"):
        case ["open", created, team, batch] if created.isdecimal() and team and batch:
            return int(created), team, batch
        case _:
            return None


def result_id(batch: str, kind: str) -> str:
    """Return the ID of the file of a batch's answers (`output`) or failures (`errors`)."""
    return f"file-{batch.removeprefix('batch_')}{kind}"


def work_prefix(batch: str) -> str:
    """Return the prefix of the objects that are deleted once a batch is over."""
    return f"work/{batch}"


@dataclass(frozen=True)
class StoredFile:
    """A file."""

    id: str
    team: str
    size: int
    created: int
    expires: int
    filename: str
    purpose: str

    @classmethod
    def of(cls, entry: Entry, retention_days: int) -> "StoredFile | None":
        """Return the file of an object; None if it has expired or is foreign."""
        try:
            _, team, file = entry.name.split("/")
            created = int(entry.metadata.get("created", "0"))
            expires = int(entry.metadata.get("expires", "0")) or created + retention_days * 86_400
        except ValueError:
            return None
        if expires <= time.time():
            return None
        return cls(
            id=file,
            team=team,
            size=entry.size,
            created=created,
            expires=expires,
            filename=entry.metadata.get("filename", file),
            purpose=entry.metadata.get("purpose", "batch"),
        )

    def public(self) -> dict[str, Any]:
        """Return the file in the format of the API."""
        return {
            "id": self.id,
            "object": "file",
            "bytes": self.size,
            "created_at": self.created,
            "expires_at": self.expires,
            "filename": self.filename,
            "purpose": self.purpose,
            "status": "processed",
            "status_details": None,
        }


def file_metadata(purpose: str, filename: str, seconds: int | None = None) -> dict[str, str]:
    """Return the metadata of a new file that expires after a number of seconds."""
    created = now()
    expires = "" if seconds is None else str(created + seconds)
    found = {"created": str(created), "filename": filename, "purpose": purpose}
    return {**found, "expires": expires} if expires else found


GONE: Final = {
    "code": "input_file_not_found",
    "message": "The input file was deleted.",
    "param": "input_file_id",
    "line": None,
}
"""Error of a batch whose requests cannot be read."""
Batch = dict[str, Any]
"""A batch: what the API has, and `team`, `ending` (what it becomes once its shards are sealed) and
`engine` (the own engine that answers it, or empty)."""
_INTERNAL: Final = ("ending", "engine", "output_seconds", "team")


def new_batch(
    team: str, endpoint: str, file: str, window_seconds: int, metadata: dict[str, str] | None
) -> Batch:
    """Return a new batch, before validation."""
    created = now()
    times = ("in_progress", "finalizing", "completed", "failed", "expired", "cancelling")
    return {
        "id": new_id("batch_"),
        "object": "batch",
        "endpoint": endpoint,
        "errors": None,
        "input_file_id": file,
        "completion_window": "24h",
        "status": "validating",
        "output_file_id": None,
        "error_file_id": None,
        "created_at": created,
        "expires_at": created + window_seconds,
        **{f"{each}_at": None for each in times},
        "cancelled_at": None,
        "request_counts": {"total": 0, "completed": 0, "failed": 0},
        "metadata": metadata,
        "team": team,
        "ending": "completed",
        "engine": "",
        "output_seconds": None,
    }


def engine_of(batch: Batch) -> str:
    """Return the own engine that answers a batch, or empty; older batches have none."""
    return str(batch.get("engine") or "")


def public_batch(batch: Batch) -> dict[str, Any]:
    """Return a batch in the format of the API."""
    return {name: value for name, value in batch.items() if name not in _INTERNAL}


@dataclass(frozen=True)
class Shard:
    """Requests of a batch that one worker answers."""

    index: int
    start: int
    """Offset of its start in the input, in bytes."""
    end: int
    first: int
    """Number of its first line, from 1."""
    lines: int
    """Requests: lines that are not blank."""
    state: str = "open"
    """Status: `open`, `running` or `sealed`."""
    owner: str = ""
    until: float = 0.0
    """End of the owner's lease, in seconds since the epoch."""
    completed: int = 0
    failed: int = 0
    output: str = ""
    """Object of the answers, once it is sealed."""
    errors: str = ""
    """Object of the failures, once it is sealed."""

    def is_free(self) -> bool:
        """Return whether a worker may take it."""
        return self.state == "open" or (self.state == "running" and self.until < time.time())


@dataclass(frozen=True)
class Held:
    """A shard, with the generation that an update replaces."""

    batch: str
    shard: Shard
    generation: int

    @property
    def name(self) -> str:
        """The object of the shard."""
        return shard_name(self.batch, self.shard.index)


def shard_name(batch: str, index: int) -> str:
    """Return the object of a shard."""
    return f"{work_prefix(batch)}/shards/{index:05d}"


async def add_shard(bucket: Bucket, batch: str, shard: Shard) -> None:
    """Create a shard, unless it exists."""
    try:
        await _write_shard(bucket, batch, shard, 0)
    except Changed:
        return


async def shards_of(bucket: Bucket, batch: str) -> list[Held]:
    """Return the shards of a batch in order, from one listing."""
    entries = await bucket.entries(f"{work_prefix(batch)}/shards/")
    return [
        Held(batch, Shard(**json.loads(each.metadata["shard"])), each.generation)
        for each in entries
    ]


async def change_shard(bucket: Bucket, held: Held, **changes: Any) -> Held:
    """Change a shard and return it.

    A write whose answer was lost counts: the owner is that of one lease, which writes one change
    after the other, so what has its name is its own.

    Raises:
        Changed: It is another's by now.
    """
    shard = replace(held.shard, **changes)
    generation = held.generation
    for _ in range(_TRIES):
        try:
            generation = await _write_shard(bucket, held.batch, shard, generation)
        except Changed:
            found = await bucket.read(held.name)
            known = None if found is None else Shard(**json.loads(found[0]))
            if found is None or known is None or not shard.owner or known.owner != shard.owner:
                raise
            generation = found[1]
            if known != shard:
                continue  # an earlier change, whose answer was lost
        return Held(held.batch, shard, generation)
    raise Changed


def new_owner() -> str:
    """Return the name of a lease: that of the process and of this lease only."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(6)}"


async def _write_shard(bucket: Bucket, batch: str, shard: Shard, generation: int) -> int:
    text = json.dumps(asdict(shard))
    name = shard_name(batch, shard.index)
    return await bucket.write(name, text.encode(), generation=generation, metadata={"shard": text})


async def read_batch(bucket: Bucket, team: str, batch: str) -> Batch | None:
    """Return a batch, or None if it does not exist."""
    found = await bucket.read(batch_name(team, batch))
    return None if found is None else json.loads(found[0])


async def change_batch(
    bucket: Bucket, team: str, batch: str, statuses: tuple[str, ...], **changes: Any
) -> Batch | None:
    """Change a batch that has one of the statuses.

    Returns:
        The batch as it is then, changed or in another status, or None if there is none.

    Raises:
        Changed: Others changed it again and again.
    """
    name = batch_name(team, batch)
    for _ in range(_TRIES):
        found = await bucket.read(name)
        if found is None:
            return None
        known: Batch = json.loads(found[0])
        if known["status"] not in statuses:
            return known
        changed = {**known, **changes}
        try:
            await bucket.write(name, json.dumps(changed).encode(), generation=found[1])
        except Changed:
            continue
        return changed
    raise Changed


async def fail_without_input(bucket: Bucket, batch: Batch) -> None:
    """End a batch without input as failed, with its answers so far."""
    await fail(bucket, batch, GONE)


async def fail(bucket: Bucket, batch: Batch, why: dict[str, Any]) -> None:
    """End a batch as failed with an error of the API, with its answers so far."""
    await change_batch(
        bucket,
        batch["team"],
        batch["id"],
        ("in_progress", "finalizing"),
        status="finalizing",
        ending="failed",
        finalizing_at=batch["finalizing_at"] or now(),
        errors={"object": "list", "data": [why]},
    )
