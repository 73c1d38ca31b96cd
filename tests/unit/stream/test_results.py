"""Rows for BigQuery: limits that no table of a test reaches by chance."""

import asyncio
import json
from typing import Any, cast

import aiohttp
import pytest

from workloads.stream.messages import Message
from workloads.stream.results import BigQueryResults
from workloads.stream.source import TooLarge


class Api:
    """Takes every row."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def post(self, path: str, *, content: bytes) -> tuple[int, bytes]:
        del path
        self.bodies.append(content)
        return 200, b"{}"


def kept(message_id: str, answer: bytes) -> Any:
    """Return the row that an answer becomes."""
    results = BigQueryResults("docs", cast("aiohttp.ClientSession", None), "p.d.t")
    api: Any = Api()
    results._api = api
    asyncio.run(results.keep(Message(message_id, b"", {}), answer, "llama"))
    (row,) = json.loads(api.bodies[0])["rows"]
    return row


def test_a_row_has_its_id_as_insert_id() -> None:
    row = kept("7", b"{}")
    assert (row["insertId"], row["json"]["id"]) == ("docs/7", "docs/7")


def test_a_long_id_has_a_digest_as_insert_id_that_is_the_same_each_time() -> None:
    topic = "t" * 249
    row = kept(f"{topic}-0-1", b"{}")
    assert row["json"]["id"] == f"docs/{topic}-0-1"
    assert len(row["insertId"]) == 64
    assert row["insertId"] == kept(f"{topic}-0-1", b"{}")["insertId"]
    assert row["insertId"] != kept(f"{topic}-0-2", b"{}")["insertId"]


def test_an_answer_that_is_larger_than_a_request_is_too_large_for_the_table() -> None:
    with pytest.raises(TooLarge, match=r"BigQuery takes 10485760"):
        kept("7", b"x" * 10 * 1024 * 1024)
