"""The rows of all tables: one SQLite file, which outlives the server."""

import json
import sqlite3
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from twin.host.private_files import create_private
from twin.wire.property_values import Json

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS rows (
  number INTEGER PRIMARY KEY, of TEXT NOT NULL, insert_id TEXT, inserted REAL NOT NULL,
  content TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS rows_by_id ON rows (of, insert_id, inserted);
"""


class Rows:
    """Rows by the path of their table."""

    def __init__(self, file: Path) -> None:
        self._file = file
        create_private(file)
        with self._open() as db:
            db.executescript(_SCHEMA)

    @contextmanager
    def _open(self) -> Generator[sqlite3.Connection]:
        db = sqlite3.connect(self._file, timeout=30, isolation_level=None)
        try:
            yield db
        finally:
            db.close()

    def add(
        self, table: str, rows: Iterable[tuple[str | None, Json]], now: float, seconds: float
    ) -> None:
        """Add rows, except those whose insert ID was added in the last seconds.

        Args:
            table: Path of the table.
            rows: Each with its insert ID, if it has one.
            now: Seconds since the epoch.
            seconds: How long insert IDs are remembered.
        """
        with self._open() as db:
            db.execute("BEGIN IMMEDIATE")
            for insert_id, content in rows:
                if insert_id is None or not _is_known(db, table, insert_id, now - seconds):
                    db.execute(
                        "INSERT INTO rows (of, insert_id, inserted, content) VALUES (?,?,?,?)",
                        (table, insert_id, now, json.dumps(content)),
                    )
            db.execute("COMMIT")

    def page(self, table: str, start: int, most: int) -> tuple[list[Json], int]:
        """Return rows from a position on, oldest first, and the number of all rows."""
        with self._open() as db:
            (total,) = db.execute("SELECT count(*) FROM rows WHERE of = ?", (table,)).fetchone()
            found = db.execute(
                "SELECT content FROM rows WHERE of = ? ORDER BY number LIMIT ? OFFSET ?",
                (table, most, start),
            )
            return [json.loads(content) for (content,) in found], int(total)


def _is_known(db: sqlite3.Connection, table: str, insert_id: str, since: float) -> bool:
    query = "SELECT 1 FROM rows WHERE of = ? AND insert_id = ? AND inserted > ?"
    return db.execute(query, (table, insert_id, since)).fetchone() is not None
