"""`/v1/batches`: creates, shows, lists and cancels batches."""

import asyncio
import contextlib
import json
import time
from typing import Any, Final, cast

from aiohttp import web

from workloads.common.bucket import Bucket, Changed

from .errors import Refused, invalid
from .files import Files, is_id, lifetime, listed, page_of
from .keeper import models_of
from .records import (
    OVER,
    Batch,
    batch_name,
    change_batch,
    new_batch,
    now,
    open_name,
    public_batch,
    read_batch,
    shards_of,
)
from .settings import ENDPOINTS, Settings

_WINDOW: Final = "24h"
_MOST_LISTED: Final = 100
_LISTED: Final = 20
_MOST_METADATA: Final = 16
_LONGEST_KEY: Final = 64
_LONGEST_VALUE: Final = 512
_LONGEST_BODY: Final = 2**20


class Batches:
    """The batches of all teams; a team has access only to its own."""

    def __init__(self, settings: Settings, bucket: Bucket, files: Files) -> None:
        self._settings = settings
        self._bucket = bucket
        self._files = files

    async def create(self, team: str, request: web.Request) -> web.StreamResponse:
        """Answer `POST /v1/batches`."""
        given = await _body(request)
        endpoint = self._endpoint(team, given)
        window = given.get("completion_window")
        if window != _WINDOW:
            raise invalid("completion_window", f"completion_window: must be {_WINDOW}.")
        metadata = _metadata(given.get("metadata"))
        file = await self._input(team, given)
        batch = new_batch(team, endpoint, file, self._settings.window_seconds, metadata)
        life = given.get("output_expires_after")
        if isinstance(life, dict):
            asked = cast("dict[str, Any]", life)
            days = self._settings.retention_days
            batch["output_seconds"] = lifetime("output_expires_after", asked, days)
        # first what makes others look at it: without it, a batch would be forgotten by a death
        await self._bucket.write(open_name(batch["created_at"], team, batch["id"]), b"")
        content = json.dumps(batch).encode()
        with contextlib.suppress(Changed):  # this write, sent twice: nobody else has the name
            await self._bucket.write(batch_name(team, batch["id"]), content, generation=0)
        return web.json_response(public_batch(batch))

    def _endpoint(self, team: str, given: dict[str, Any]) -> str:
        endpoint = given.get("endpoint")
        if endpoint not in ENDPOINTS:
            raise invalid("endpoint", f"endpoint: must be one of {', '.join(ENDPOINTS)}.")
        known = {
            each for model in models_of(self._settings, team).values() for each in model.endpoints
        }
        if endpoint not in known:
            rule = f"endpoint: no model of this platform answers {endpoint} in a batch."
            if known:
                rule += f" Use {' or '.join(sorted(known))}."
            raise invalid("endpoint", rule)
        return str(endpoint)

    async def _input(self, team: str, given: dict[str, Any]) -> str:
        number = given.get("input_file_id")
        file = await self._files.find(team, number) if isinstance(number, str) else None
        if file is None:
            raise invalid("input_file_id", f"input_file_id: no such file: {number}")
        if file.purpose != "batch":
            rule = f"input_file_id: must be a file of purpose batch, got {file.purpose}."
            raise invalid("input_file_id", rule)
        if file.expires < time.time() + self._settings.window_seconds:
            rule = "input_file_id: must be there for the whole completion window."
            raise invalid("input_file_id", rule)
        return file.id

    async def _get(self, team: str, number: str) -> Batch:
        found = await read_batch(self._bucket, team, number) if is_id(number) else None
        if found is None:
            raise Refused(404, f"No batch found with id '{number}'.", param="id")
        return found

    async def _public(self, batch: Batch) -> dict[str, Any]:
        """Return a batch in the format of the API, with its progress so far."""
        if batch["status"] in OVER or batch["status"] == "validating":
            return public_batch(batch)
        shards = [held.shard for held in await shards_of(self._bucket, batch["id"])]
        counts = {
            "total": batch["request_counts"]["total"],
            "completed": sum(each.completed for each in shards),
            "failed": sum(each.failed for each in shards),
        }
        return public_batch({**batch, "request_counts": counts})

    async def show(self, team: str, request: web.Request) -> web.StreamResponse:
        """Answer `GET /v1/batches/ID`."""
        batch = await self._get(team, request.match_info["id"])
        return web.json_response(await self._public(batch))

    async def list(self, team: str, request: web.Request) -> web.StreamResponse:
        """Answer `GET /v1/batches`, the newest first."""
        entries = await self._bucket.entries(f"batches/{team}/")
        numbers = [entry.name.rpartition("/")[2] for entry in reversed(entries)]
        page, has_more = page_of([(each, each) for each in numbers], request, _LISTED, _MOST_LISTED)
        found = await asyncio.gather(*(read_batch(self._bucket, team, each) for each in page))
        data = [await self._public(batch) for batch in found if batch is not None]
        return listed(data, has_more)

    async def cancel(self, team: str, request: web.Request) -> web.StreamResponse:
        """Answer `POST /v1/batches/ID/cancel`."""
        batch = await self._get(team, request.match_info["id"])
        changed = await change_batch(
            self._bucket,
            team,
            batch["id"],
            ("validating", "in_progress"),
            status="cancelling",
            ending="cancelled",
            cancelling_at=now(),
        )
        if changed is None or changed["status"] not in ("cancelling", "cancelled"):
            status = "gone" if changed is None else changed["status"]
            raise Refused(409, f"Cannot cancel a batch with status '{status}'.")
        return web.json_response(await self._public(changed))


async def _body(request: web.Request) -> dict[str, Any]:
    raw = await request.content.read(_LONGEST_BODY + 1)
    while len(raw) <= _LONGEST_BODY and not request.content.at_eof():
        raw += await request.content.read(_LONGEST_BODY + 1 - len(raw))
    try:
        content: Any = json.loads(raw) if len(raw) <= _LONGEST_BODY else None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise Refused(400, "The body of this call must be a JSON object of at most 1 MiB.")
    return cast("dict[str, Any]", content)


def _metadata(given: Any) -> dict[str, str] | None:
    if given is None:
        return None
    rule = (
        f"metadata: must have at most {_MOST_METADATA} pairs of texts, "
        f"keys of {_LONGEST_KEY} and values of {_LONGEST_VALUE} characters."
    )
    if not isinstance(given, dict):
        raise invalid("metadata", rule)
    pairs = cast("dict[str, Any]", given)
    fits = all(
        isinstance(value, str) and len(key) <= _LONGEST_KEY and len(value) <= _LONGEST_VALUE
        for key, value in pairs.items()
    )
    if not fits or len(pairs) > _MOST_METADATA:
        raise invalid("metadata", rule)
    return pairs
