"""Uploads: one team, or one client that says nothing, keeps no other team from its files."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.unit.batch.memory import Memory
from tests.unit.batch.test_keeper import SETTINGS
from workloads.batch.main import application
from workloads.batch.metrics import ServiceMetrics

FIELD = b'--b\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
FILE = b'--b\r\ncontent-disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n'
HEAD = FIELD + FILE + b'{"a":'
REST = b" 1}\r\n--b--\r\n"
TYPE = {"content-type": "multipart/form-data; boundary=b"}
TEAMS = {"red": None, "blue": None}
Api = Callable[[str, Any], Coroutine[Any, Any, tuple[int, Any]]]


class Stored(Memory):
    """A bucket that takes files."""

    async def upload(
        self,
        name: str,
        file: Path,
        metadata: dict[str, str],
        kind: str = "application/jsonl",
    ) -> None:
        await self.write(name, file.read_bytes(), metadata=metadata)


@asynccontextmanager
async def api(bucket: Memory, **changes: Any) -> AsyncGenerator[Api]:
    """Serve the API; yield what uploads a form for a team and returns status and content."""
    changes.setdefault("teams", TEAMS)
    made = replace(SETTINGS, **changes)
    app = application(made, bucket, ServiceMetrics())
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1/files"
    async with aiohttp.ClientSession() as session:

        async def upload(team: str, form: Any) -> tuple[int, Any]:
            headers = {**TYPE, "x-gki-team": team}
            async with session.post(url, data=form, headers=headers) as response:
                return response.status, json.loads(await response.read())

        try:
            yield upload
        finally:
            await runner.cleanup()


async def half(more: asyncio.Event) -> AsyncGenerator[bytes]:
    """Send half a form, and the rest later."""
    yield HEAD
    await more.wait()
    yield REST


@pytest.mark.parametrize("teams", [TEAMS, None], ids=["teams", "everyone"])
def test_half_sent_forms_of_a_team_do_not_stop_the_upload_of_another(teams: Any) -> None:
    async def run() -> None:
        more = asyncio.Event()
        async with api(Stored(), teams=teams) as upload:
            halves = [asyncio.create_task(upload("red", half(more))) for _ in range(4)]
            await asyncio.sleep(0.3)
            status, file = await upload("blue", HEAD + REST)
            assert (status, file["bytes"]) == (200, 8)
            more.set()
            done = [status for status, _ in await asyncio.gather(*halves)]
            assert sorted(done) == ([200, 200, 429, 429] if teams else [200] * 4)
            assert (await upload("red", HEAD + REST))[0] == 200

    asyncio.run(run())


async def stopped(pieces: tuple[bytes, ...]) -> AsyncGenerator[bytes]:
    """Send pieces of a form, and then nothing."""
    for piece in pieces:
        yield piece
        await asyncio.sleep(0.05)
    await asyncio.Event().wait()


@pytest.mark.parametrize("pieces", [(FIELD,), (FIELD, FILE, bytes(1000))], ids=["field", "file"])
def test_an_upload_without_data_for_too_long_is_ended_and_gives_its_place_back(
    pieces: tuple[bytes, ...],
) -> None:
    async def run() -> None:
        async with api(Stored(), idle_seconds=0.2) as upload:
            for _ in range(4):
                status, content = await asyncio.wait_for(upload("red", stopped(pieces)), 10)
                assert status == 408
                assert content["error"]["message"] == "The upload had no data for 0.2 s."

    asyncio.run(run())


def test_a_team_with_too_many_bytes_uploads_no_more_and_the_others_do() -> None:
    async def run() -> None:
        bucket = Stored()
        await bucket.write("files/red/file-1", bytes(93))
        async with api(bucket, max_stored_bytes=100) as upload:
            status, content = await upload("red", HEAD + REST)
            assert (status, content["error"]["code"]) == (413, "storage_limit_exceeded")
            assert (await upload("blue", HEAD + REST))[0] == 200
            await bucket.write("files/red/file-1", bytes(92))
            assert (await upload("red", HEAD + REST))[0] == 200

    asyncio.run(run())
