"""The resources in the twin's Google Cloud: one SQLite file, which other processes also read.

Each call is one short transaction on its own connection, so threads and processes need no lock.
"""

import json
import sqlite3
import time
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from twin.host.paths import TwinPaths
from twin.host.private_files import create_private
from twin.wire.property_values import Json

Status = Literal["creating", "ready", "updating", "deleting"]
_BUSY_SECONDS = 30.0
_TICK_NS = 50_000_000
"""Age from which the time of a file tells a later write apart. Linux before 6.13 gives files the
time of its last tick, which can be 10 ms old: two writes in a tick look alike."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS resources (
  type TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, project TEXT NOT NULL,
  urn TEXT NOT NULL, status TEXT NOT NULL, acknowledged INTEGER NOT NULL DEFAULT 0,
  inputs TEXT NOT NULL, outputs TEXT NOT NULL, created REAL NOT NULL,
  PRIMARY KEY (type, id));
CREATE INDEX IF NOT EXISTS resources_by_name ON resources (type, name);
CREATE TABLE IF NOT EXISTS uses (
  user_type TEXT NOT NULL, user_id TEXT NOT NULL, type TEXT NOT NULL, id TEXT NOT NULL,
  blocks INTEGER NOT NULL, PRIMARY KEY (user_type, user_id, type, id));
CREATE INDEX IF NOT EXISTS uses_by_target ON uses (type, id);
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""


@dataclass(frozen=True)
class Record:
    """One resource."""

    type: str
    id: str
    name: str
    project: str
    urn: str
    status: Status
    acknowledged: bool
    """Whether an engine has acknowledged the resource."""
    inputs: Json
    outputs: Json
    created: float
    """Seconds since the epoch."""


@dataclass(frozen=True)
class Use:
    """A reference from one resource to another."""

    type: str
    id: str
    blocks: bool
    """Whether the target cannot be deleted while the reference exists."""


class Store:
    """The resources of one twin."""

    def __init__(self, file: Path) -> None:
        self._file = file
        file.parent.mkdir(parents=True, exist_ok=True)
        create_private(file)  # it has secrets; what SQLite puts beside it gets its mode
        with self._open() as db:
            db.execute("PRAGMA journal_mode=WAL")
            db.executescript(_SCHEMA)

    @contextmanager
    def _open(self) -> Generator[sqlite3.Connection]:
        db = sqlite3.connect(self._file, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            # a twin's state may be lost with the machine, not with a process
            db.execute("PRAGMA synchronous=OFF")
            yield db
        finally:
            db.close()

    @contextmanager
    def _write(self) -> Generator[sqlite3.Connection]:
        with self._open() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")

    def add(self, record: Record, uses: list[Use]) -> Record | None:
        """Add a resource; return the existing one with its type and ID, if any."""
        with self._write() as db:
            found = _one(db, record.type, record.id)
            if found is not None:
                return found
            db.execute(
                "INSERT INTO resources VALUES (?,?,?,?,?,?,?,?,?,?)",
                (
                    record.type,
                    record.id,
                    record.name,
                    record.project,
                    record.urn,
                    record.status,
                    int(record.acknowledged),
                    json.dumps(record.inputs),
                    json.dumps(record.outputs),
                    record.created,
                ),
            )
            _set_uses(db, record.type, record.id, uses)
        return None

    def set(
        self,
        token: str,
        resource_id: str,
        *,
        status: Status | None = None,
        inputs: Json | None = None,
        outputs: Json | None = None,
        urn: str | None = None,
        acknowledged: bool | None = None,
        uses: list[Use] | None = None,
    ) -> None:
        """Change the given fields of a resource."""
        values: dict[str, Any] = {
            "status": status,
            "urn": urn,
            "inputs": None if inputs is None else json.dumps(inputs),
            "outputs": None if outputs is None else json.dumps(outputs),
            "acknowledged": None if acknowledged is None else int(acknowledged),
        }
        given = {key: value for key, value in values.items() if value is not None}
        with self._write() as db:
            for column, value in given.items():
                db.execute(
                    f"UPDATE resources SET {column} = ? WHERE type = ? AND id = ?",  # noqa: S608
                    (value, token, resource_id),
                )
            if uses is not None:
                _set_uses(db, token, resource_id, uses)

    def add_outputs(self, token: str, resource_id: str, outputs: Json) -> None:
        """Overwrite some outputs of a resource; others that change meanwhile keep their change."""
        with self._write() as db:
            found = _one(db, token, resource_id)
            if found is not None:
                db.execute(
                    "UPDATE resources SET outputs = ? WHERE type = ? AND id = ?",
                    (json.dumps({**found.outputs, **outputs}), token, resource_id),
                )

    def remove(self, token: str, resource_id: str) -> None:
        """Delete a resource and its references."""
        with self._write() as db:
            db.execute("DELETE FROM resources WHERE type = ? AND id = ?", (token, resource_id))
            db.execute("DELETE FROM uses WHERE user_type = ? AND user_id = ?", (token, resource_id))

    def get(self, token: str, resource_id: str) -> Record | None:
        """Return a resource, or None if it does not exist."""
        with self._open() as db:
            return _one(db, token, resource_id)

    def acknowledge(self, token: str, resource_id: str) -> None:
        """Record that an engine knows a resource; write only the first time."""
        with self._open() as db:
            row = db.execute(
                "SELECT 1 FROM resources WHERE type = ? AND id = ? AND acknowledged = 0",
                (token, resource_id),
            ).fetchone()
        if row is not None:
            self.set(token, resource_id, acknowledged=True)

    def find(self, token: str, name: str | None = None) -> list[Record]:
        """Return the resources of a type, optionally with a name, oldest first."""
        clause, values = ("", (token,)) if name is None else (" AND name = ?", (token, name))
        query = f"SELECT * FROM resources WHERE type = ?{clause} ORDER BY created, id"  # noqa: S608
        with self._open() as db:
            return [_record(row) for row in db.execute(query, values)]

    def has_name(self, token: str, name: str) -> bool:
        """Return whether a resource has a name; for email addresses, the part before `@`."""
        query = "SELECT 1 FROM resources WHERE type = ? AND (name = ? OR name GLOB ?) LIMIT 1"
        with self._open() as db:
            return db.execute(query, (token, name, f"{name}@*")).fetchone() is not None

    def all(self, types: Collection[str] = ()) -> list[Record]:
        """Return every resource, oldest first; with `types`, only those of these types."""
        marks = ",".join("?" * len(types))
        clause = f" WHERE type IN ({marks})" if types else ""
        query = f"SELECT * FROM resources{clause} ORDER BY created"  # noqa: S608
        with self._open() as db:
            return [_record(row) for row in db.execute(query, tuple(types))]

    def users(self, token: str, resource_id: str) -> list[Use]:
        """Return the resources that reference a resource."""
        with self._open() as db:
            rows = db.execute(
                "SELECT user_type, user_id, blocks FROM uses WHERE type = ? AND id = ?"
                " ORDER BY user_type, user_id",
                (token, resource_id),
            )
            return [Use(row[0], row[1], bool(row[2])) for row in rows]

    def fact(self, name: str) -> Any:
        """Return a fact that outlives resources, or None if it was never recorded."""
        with self._open() as db:
            row = db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else json.loads(row[0])

    def note(self, name: str, value: Any) -> None:
        """Record a fact."""
        with self._write() as db:
            db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, json.dumps(value)))

    def next_number(self, name: str) -> int:
        """Return the next value of a counter, starting at 1."""
        with self._write() as db:
            row = db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
            number = 1 if row is None else int(json.loads(row[0])) + 1
            db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, json.dumps(number)))
        return number


def _one(db: sqlite3.Connection, token: str, resource_id: str) -> Record | None:
    row = db.execute(
        "SELECT * FROM resources WHERE type = ? AND id = ?", (token, resource_id)
    ).fetchone()
    return None if row is None else _record(row)


def _record(row: tuple[Any, ...]) -> Record:
    return Record(
        type=row[0],
        id=row[1],
        name=row[2],
        project=row[3],
        urn=row[4],
        status=row[5],
        acknowledged=bool(row[6]),
        inputs=json.loads(row[7]),
        outputs=json.loads(row[8]),
        created=row[9],
    )


def _set_uses(db: sqlite3.Connection, token: str, resource_id: str, uses: list[Use]) -> None:
    db.execute("DELETE FROM uses WHERE user_type = ? AND user_id = ?", (token, resource_id))
    db.executemany(
        "INSERT OR IGNORE INTO uses VALUES (?,?,?,?,?)",
        [(token, resource_id, use.type, use.id, int(use.blocks)) for use in uses],
    )


def new_record(
    token: str, resource_id: str, name: str, project: str, urn: str, inputs: Json, outputs: Json
) -> Record:
    """Return the record of a resource whose creation starts now."""
    return Record(
        type=token,
        id=resource_id,
        name=name,
        project=project,
        urn=urn,
        status="creating",
        acknowledged=False,
        inputs=inputs,
        outputs=outputs,
        created=time.time(),
    )


def find_by_name(token: str, name: str, paths: TwinPaths | None = None) -> Json | None:
    """Return the outputs of the first ready resource of a type with a name, or None.

    Other processes of a twin use it, such as the gateway to look up an address.
    """
    file = (paths or TwinPaths.default()).cloud_db
    if not file.exists():
        return None
    found = [record for record in Store(file).find(token, name) if record.status != "creating"]
    return found[0].outputs if found else None


def list_resources(paths: TwinPaths | None = None, types: Collection[str] = ()) -> list[Record]:
    """Return every resource of a twin, oldest first; with `types`, only those of these types."""
    file = (paths or TwinPaths.default()).cloud_db
    return Store(file).all(types) if file.exists() else []


class Listing:
    """The resources of a twin for who asks often: they are read again only after a change."""

    def __init__(
        self,
        paths: TwinPaths,
        types: Collection[str] = (),
        prepare: Callable[[Store], None] = lambda _: None,
    ) -> None:
        """Take the types to list, all if there are none, and what to do first after a change."""
        self._file, self._types, self._prepare = paths.cloud_db, types, prepare
        self._mark: object = None
        self._found: list[Record] = []

    def all(self) -> list[Record]:
        """Return the resources, oldest first; the same objects until a change."""
        if not self._file.exists():
            self._mark, self._found = None, []
            return []
        now = time.time_ns()
        mark = self._written()  # before reading: a change meanwhile is read the next time
        if mark != self._mark:
            store = Store(self._file)
            self._prepare(store)
            self._found = store.all(self._types)
            self._mark = mark if all(now - each[0] > _TICK_NS for each in mark) else None
        return self._found

    def _written(self) -> list[tuple[int, int, int]]:
        """Return what a write changes: the file, or the log before it gets into the file."""
        log = self._file.with_name(f"{self._file.name}-wal")
        return [each for file in (self._file, log) if (each := _written(file)) is not None]


def _written(file: Path) -> tuple[int, int, int] | None:
    """Return what tells versions of a file apart, its time first; None for one without content."""
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return (found.st_mtime_ns, found.st_ino, found.st_size) if found.st_size else None
