"""`/v1/files`: the input and output files of batches."""

import asyncio
import logging
import tempfile
from collections import Counter
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, Final, TypeVar

from aiohttp import BodyPartReader, web

from workloads.common.bucket import Bucket, BucketError, reason
from workloads.common.logs import say

from .errors import Refused, invalid
from .records import (
    OVER,
    StoredFile,
    file_metadata,
    file_name,
    new_id,
    opened,
    read_batch,
)
from .settings import Settings

_PIECE: Final = 2**20
_LONGEST_FIELD: Final = 1000
_MOST_FIELDS: Final = 20
_MOST_UPLOADS: Final = 8
"""Concurrent uploads: each may have the largest file on the disk."""
_MOST_UPLOADS_OF_TEAM: Final = 2
"""Concurrent uploads of one team, where there are several."""
_RETRY_SECONDS: Final = 5
_SHORTEST_LIFE: Final = 3600
_MOST_LISTED: Final = 10_000
_T = TypeVar("_T")


class Files:
    """The files of all teams; a team has access only to its own."""

    def __init__(self, settings: Settings, bucket: Bucket) -> None:
        self._settings = settings
        self._bucket = bucket
        self._uploads: Counter[str] = Counter()

    async def find(self, team: str, file: str) -> StoredFile | None:
        """Return a file, or None if the team has no file with this ID."""
        entry = await self._bucket.entry(file_name(team, file)) if is_id(file) else None
        return None if entry is None else StoredFile.of(entry, self._settings.retention_days)

    async def _get(self, team: str, file: str) -> StoredFile:
        found = await self.find(team, file)
        if found is None:
            raise Refused(404, f"No such File object: {file}", param="id")
        return found

    async def create(self, team: str, request: web.Request) -> web.StreamResponse:
        """Answer `POST /v1/files`."""
        if not request.content_type.startswith("multipart/"):
            raise Refused(400, "The body of this call must be multipart/form-data.")
        self._check_uploads(team)
        self._uploads[team] += 1
        try:
            return await self._create(team, request)
        finally:
            self._uploads[team] -= 1

    def _check_uploads(self, team: str) -> None:
        """Refuse an upload that would keep others from theirs."""
        shares = self._settings.teams is not None
        most = _MOST_UPLOADS_OF_TEAM if shares else _MOST_UPLOADS
        rule = "More than {} files are being uploaded{}."
        message = ""
        if self._uploads[team] >= most:
            message = rule.format(most, " by this team" if shares else "")
        elif self._uploads.total() >= _MOST_UPLOADS:
            message = rule.format(_MOST_UPLOADS, "")
        if message:
            raise Refused(429, message, code="rate_limit_exceeded", retry_after=_RETRY_SECONDS)

    async def _check_stored(self, team: str, size: int) -> None:
        """Refuse a file that a team has no room for.

        Uploads at the same time do not see each other: a team can exceed its room by those.
        """
        most = self._settings.max_stored_bytes
        stored = sum(entry.size for entry in await self._bucket.entries(f"files/{team}/"))
        if stored + size > most:
            message = (
                f"Files and answers would have {stored + size} bytes, more than {most}. "
                "Delete some files, or wait until they expire."
            )
            raise Refused(413, message, code="storage_limit_exceeded", param="file")

    async def _create(self, team: str, request: web.Request) -> web.StreamResponse:
        with tempfile.TemporaryDirectory(dir=self._settings.scratch or None) as folder:
            content = Path(folder) / "content"
            fields, filename = await self._receive(request, content)
            if filename is None:
                raise invalid("file", "Missing required parameter: 'file'.")
            if fields.get("purpose") != "batch":
                raise invalid("purpose", "purpose: must be batch: other files are not kept here.")
            seconds = self._life(
                {
                    name.partition("[")[2].rstrip("]"): value
                    for name, value in fields.items()
                    if name.startswith("expires_after[")
                }
            )
            await self._check_stored(team, content.stat().st_size)
            number = new_id("file-")
            metadata = file_metadata("batch", filename, seconds)
            await self._bucket.upload(file_name(team, number), content, metadata)
        return web.json_response((await self._get(team, number)).public())

    def _life(self, given: dict[str, str]) -> int | None:
        """Return `expires_after` in seconds, if it is set."""
        if not given:
            return None
        return lifetime("expires_after", given, self._settings.retention_days)

    async def _receive(
        self, request: web.Request, content: Path
    ) -> tuple[dict[str, str], str | None]:
        """Return the fields of a form and the name of its file, which is then on the disk."""
        fields: dict[str, str] = {}
        filename: str | None = None
        try:
            reader = await request.multipart()
            while (part := await self._in_time(reader.next())) is not None:
                if not isinstance(part, BodyPartReader):
                    raise Refused(400, "The parts of the body must not be multipart.")
                if part.name == "file" and filename is None:
                    filename = (part.filename or "file")[:_LONGEST_FIELD]
                    await self._save(part, content)
                else:
                    if len(fields) == _MOST_FIELDS:
                        raise Refused(400, f"The form has more than {_MOST_FIELDS} fields.")
                    fields[part.name or ""] = await self._in_time(_text(part))
        except (ValueError, AssertionError, RuntimeError):
            raise Refused(400, "The body is not a whole form.") from None
        return fields, filename

    async def _save(self, part: BodyPartReader, content: Path) -> None:
        size = 0
        with content.open("wb") as file:
            while piece := await self._in_time(part.read_chunk(_PIECE)):
                size += len(piece)
                if size > self._settings.max_bytes:
                    limit = f"{self._settings.max_bytes // 2**20} MiB"
                    raise Refused(413, f"The file is larger than {limit}.", param="file")
                await asyncio.to_thread(file.write, piece)

    async def _in_time(self, piece: Awaitable[_T]) -> _T:
        """Return the next piece of an upload, whose client must not keep others waiting."""
        limit = self._settings.idle_seconds
        try:
            async with asyncio.timeout(limit):
                return await piece
        except TimeoutError:
            raise Refused(408, f"The upload had no data for {limit:g} s.") from None

    async def show(self, team: str, request: web.Request) -> web.StreamResponse:
        """Answer `GET /v1/files/ID`."""
        return web.json_response((await self._get(team, request.match_info["id"])).public())

    async def list(self, team: str, request: web.Request) -> web.StreamResponse:
        """Answer `GET /v1/files`."""
        entries = await self._bucket.entries(f"files/{team}/")
        days = self._settings.retention_days
        found = [file for entry in entries if (file := StoredFile.of(entry, days)) is not None]
        purpose = request.query.get("purpose")
        if purpose is not None:
            found = [file for file in found if file.purpose == purpose]
        order = request.query.get("order", "desc")
        if order not in ("asc", "desc"):
            raise invalid("order", "order: must be asc or desc.")
        found.sort(key=lambda file: (file.created, file.id), reverse=order == "desc")
        page, has_more = page_of(
            [(file.id, file) for file in found], request, _MOST_LISTED, _MOST_LISTED
        )
        return listed([file.public() for file in page], has_more)

    async def read(self, team: str, request: web.Request) -> web.StreamResponse:
        """Answer `GET /v1/files/ID/content`."""
        file = await self._get(team, request.match_info["id"])
        response = web.StreamResponse()
        response.content_type = "application/octet-stream"
        response.content_length = file.size
        await response.prepare(request)
        try:
            async for piece in self._bucket.stream(file_name(team, file.id), file.size):
                await response.write(piece)
        except BucketError as error:
            # a second response would become part of the file
            say(logging.WARNING, "download broken off", file=file.id, why=reason(error))
            if request.transport is not None:
                request.transport.abort()
            return response
        await response.write_eof()
        return response

    async def delete(self, team: str, request: web.Request) -> web.StreamResponse:
        """Answer `DELETE /v1/files/ID`; refuse to delete the input of an open batch."""
        file = await self._get(team, request.match_info["id"])
        user = await self._user_of(team, file.id)
        if user is not None:
            raise Refused(400, f"The file is the input of {user}, which is not over.", param="id")
        await self._bucket.delete(file_name(team, file.id))
        return web.json_response({"id": file.id, "object": "file", "deleted": True})

    async def _user_of(self, team: str, file: str) -> str | None:
        """Return an open batch that reads a file."""
        for entry in await self._bucket.entries("open/"):
            found = opened(entry.name)
            if found is None or found[1] != team:
                continue
            number = found[2]
            batch = await read_batch(self._bucket, team, number)
            is_open = batch is not None and batch["status"] not in OVER
            if is_open and batch is not None and batch["input_file_id"] == file:
                return number
        return None


async def _text(part: BodyPartReader) -> str:
    """Return the text of a short field."""
    found = b""
    while piece := await part.read_chunk(_LONGEST_FIELD + 1):
        found += piece
        if len(found) > _LONGEST_FIELD:
            rule = f"A field of the form is longer than {_LONGEST_FIELD} bytes."
            raise Refused(400, rule, param=(part.name or "")[:_LONGEST_FIELD])
    return found.decode(errors="replace")


def is_id(value: str) -> bool:
    """Return whether a text can be part of an object's name."""
    return value.replace("_", "").replace("-", "").isalnum() and value.isascii()


def lifetime(field: str, given: dict[str, Any], retention_days: int) -> int:
    """Return the lifetime of a file, in seconds.

    Raises:
        Refused: The API does not support the value.
    """
    if given.get("anchor") != "created_at":
        raise invalid(f"{field}.anchor", f"{field}.anchor: must be created_at.")
    try:
        seconds = int(given.get("seconds", ""))
    except (TypeError, ValueError):
        seconds = 0
    most = retention_days * 86_400
    if not _SHORTEST_LIFE <= seconds <= most:
        rule = f"{field}.seconds: must be {_SHORTEST_LIFE} to {most}."
        raise invalid(f"{field}.seconds", rule)
    return seconds


def page_of(
    items: "list[tuple[str, _T]]", request: web.Request, default: int, most: int
) -> "tuple[list[_T], bool]":
    """Return the items after `after`, at most `limit`, and whether there are more."""
    try:
        limit = int(request.query.get("limit", str(default)))
    except ValueError:
        limit = 0
    if not 1 <= limit <= most:
        raise invalid("limit", f"limit: must be 1 to {most}.")
    after = request.query.get("after")
    numbers = [number for number, _ in items]
    if after is not None and after not in numbers:
        raise invalid("after", f"after: must be an id of this list, got {after!r}.")
    start = 0 if after is None else numbers.index(after) + 1
    chosen = [item for _, item in items[start : start + limit]]
    return chosen, start + limit < len(items)


def listed(data: "list[dict[str, Any]]", has_more: bool) -> web.Response:
    """Return a page in the format of the API."""
    return web.json_response(
        {
            "object": "list",
            "data": data,
            "first_id": data[0]["id"] if data else None,
            "last_id": data[-1]["id"] if data else None,
            "has_more": has_more,
        }
    )
