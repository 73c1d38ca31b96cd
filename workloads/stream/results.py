"""Destinations of answers, all idempotent."""

import hashlib
import json
import time
from typing import Any, Protocol
from urllib.parse import quote

import aiohttp

from .google_api import GoogleApi, GoogleError
from .messages import Message
from .source import TooLarge

_EXISTS = 412
_MOST_BYTES = 10 * 1024 * 1024
"""Maximum size of a request to BigQuery (docs.cloud.google.com/bigquery/quotas, streaming inserts:
10 MB; its error names this number)."""
_LONGEST_INSERT_ID = 128
"""Maximum length of an `insertId` (same page). The topic in a Kafka message's ID can be longer."""


class Results(Protocol):
    """A destination of answers."""

    async def keep(self, message: Message, answer: bytes, model: str) -> None:
        """Store the answer to a message durably."""
        ...


class Publishes(Protocol):
    """Publishes messages to one topic, in any system."""

    async def publish(self, data: bytes, attributes: dict[str, str], key: str = "") -> None:
        """Publish a message durably."""
        ...


def result_id(stream: str, message: Message) -> str:
    """Return the ID of an answer, which is the same for every delivery of the message."""
    return f"{stream}/{message.id}"


class TopicResults:
    """A message for each answer. A reader drops a second one of the same `result_id`."""

    def __init__(self, stream: str, publisher: Publishes) -> None:
        self._stream = stream
        self._publisher = publisher

    async def keep(self, message: Message, answer: bytes, model: str) -> None:
        """Publish the answer with the message's key."""
        attributes = {
            "result_id": result_id(self._stream, message),
            "source_id": message.id,
            "model": model,
            "stream": self._stream,
        }
        await self._publisher.publish(answer, attributes, message.key)


class BucketResults:
    """An object for each answer, created once: a second answer is dropped."""

    def __init__(
        self, stream: str, session: aiohttp.ClientSession, bucket: str, prefix: str
    ) -> None:
        self._stream = stream
        self._bucket = bucket
        self._prefix = prefix
        self._api = GoogleApi(session, "storage.googleapis.com", "STORAGE_EMULATOR_HOST")

    async def keep(self, message: Message, answer: bytes, model: str) -> None:
        """Create the object, unless it is there (`ifGenerationMatch=0`)."""
        del model
        name = quote(f"{self._prefix}{result_id(self._stream, message)}.json", safe="")
        path = (
            f"/upload/storage/v1/b/{quote(self._bucket)}/o"
            f"?uploadType=media&ifGenerationMatch=0&name={name}"
        )
        await self._api.post(path, content=answer, allowed=(_EXISTS,))


class BigQueryResults:
    """A row for each answer, with its id as `insertId` and in the column `id`.

    BigQuery drops a second row of an id for about a minute (best effort); a query takes one row of
    each `id`.
    """

    def __init__(self, stream: str, session: aiohttp.ClientSession, table: str) -> None:
        self._stream = stream
        self._project, self._dataset, self._table = table.split(".")
        self._api = GoogleApi(session, "bigquery.googleapis.com", "BIGQUERY_EMULATOR_HOST")

    async def keep(self, message: Message, answer: bytes, model: str) -> None:
        """Insert the row.

        Raises:
            TooLarge: The row is larger than a request may be.
            GoogleError: The table refuses it.
        """
        row = {
            "id": result_id(self._stream, message),
            "model": model,
            "answered": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "response": answer.decode(),
        }
        body = json.dumps({"rows": [{"insertId": _insert_id(row["id"]), "json": row}]}).encode()
        if len(body) > _MOST_BYTES:
            raise TooLarge(f"a row of {len(body)} bytes; BigQuery takes {_MOST_BYTES}")
        path = (
            f"/bigquery/v2/projects/{self._project}/datasets/{self._dataset}"
            f"/tables/{self._table}/insertAll"
        )
        _, said = await self._api.post(path, content=body)
        answered: dict[str, Any] = json.loads(said or b"{}")
        if errors := answered.get("insertErrors"):
            column = errors[0]["errors"][0].get("location") or "a required column"
            raise GoogleError(400, f"{path}: the row does not fit the table: {column}")


def _insert_id(row_id: str) -> str:
    """Return a row's `insertId`: its ID, or a digest of one that is too long."""
    if len(row_id) <= _LONGEST_INSERT_ID:
        return row_id
    return hashlib.sha256(row_id.encode()).hexdigest()
