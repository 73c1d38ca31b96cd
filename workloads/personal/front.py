"""The service on Cloud Run: announces sets, signs uploads, starts, shows and deletes."""

import asyncio
import json
import logging
import re
import time
import uuid
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol

import imagehash
from aiohttp import web
from aiohttp.typedefs import Handler

from workloads.common.logs import say

from .copies import copies, perceptual_hash
from .places import take_place
from .sets import ENDED, Refused, Set, asked, checked_name, from_bytes, is_of, state_of
from .sets import tombstone_of as tombstone
from .settings import FrontSettings
from .signing import SigningError, stamp
from .store import BucketError, Changed, Lost, Objects, write

_HEAD: Final = 12
_LARGEST_BODY: Final = 100_000
_DECODER: Final = ThreadPoolExecutor(1, "decoder")
"""Photos are decoded one at a time: one takes up to some hundred MiB."""
_ERASURE: Final = re.compile(r"[0-9a-f]{32}")


class Signs(Protocol):
    """Signs URLs (signing.py)."""

    async def upload(self, name: str, kind: str, size: int, until: float) -> dict[str, Any]:
        """Return URL, method and headers."""
        ...

    async def download(self, name: str) -> str:
        """Return a URL."""
        ...


class Front:
    """The handlers of the service. Cloud Run has authenticated the caller, the app's own backend.

    Args:
        settings: Its settings.
        objects: The bucket.
        signer: Signs URLs.
        publish: Publishes a message about a set, and returns once the topic has it.
        publish_erasure: The same, about a deletion.
        now: Clock.
    """

    def __init__(
        self,
        settings: FrontSettings,
        objects: Objects,
        signer: Signs,
        publish: Callable[[bytes], Awaitable[None]],
        publish_erasure: Callable[[bytes], Awaitable[None]],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._objects = objects
        self._signer = signer
        self._publish = publish
        self._publish_erasure = publish_erasure
        self._now = now

    def application(self) -> web.Application:
        """Return the application."""
        app = web.Application(client_max_size=_LARGEST_BODY, middlewares=[_errors])
        one = "/v1/users/{user}/sets/{set}"
        app.router.add_put(one, self.announce)
        app.router.add_post(one + "/start", self.start)
        app.router.add_get(one, self.show)
        app.router.add_delete("/v1/users/{user}", self.erase)
        app.router.add_get("/v1/erasures/{id}", self.erasure)
        app.router.add_get("/healthz", _healthy)
        return app

    async def announce(self, request: web.Request) -> web.Response:
        """Keep what a set will be, and answer with one URL per picture."""
        try:
            body = json.loads(await request.read())
        except (ValueError, RecursionError) as error:
            raise Refused(400, f"body: must be JSON, got {error}") from None
        wanted = asked(request.match_info["user"], request.match_info["set"], body, self._settings)
        await self._refuse_erased(wanted.user)
        wanted.id, wanted.since = uuid.uuid4().hex, self._now()
        wanted.uploads_until = self._now() + self._settings.upload_seconds
        generation = 0
        there = await self._objects.read(state_of(wanted.user, wanted.name))
        if there is not None:
            known = from_bytes(there[0])
            same = ("pictures", "prompts", "callback")
            if any(getattr(known, name) != getattr(wanted, name) for name in same):
                raise Refused(409, f"set: must be new or unchanged, got another {wanted.name}")
            if known.stage != "uploading":
                raise Refused(409, f"set: must not be started, got stage {known.stage}")
            generation, wanted.id, wanted.since = there[1], known.id, known.since
        await self._take_place(wanted)
        generation = await self._write(wanted, generation)
        # A deletion that began before this write has not seen the set, and one that has completed
        # since then has deleted it: no URL may outlive either.
        await self._refuse_erased(wanted.user)
        there = await self._objects.read(state_of(wanted.user, wanted.name))
        if there is None or there[1] != generation:
            raise _changed(wanted)
        until = wanted.uploads_until
        uploads = [
            await self._signer.upload(wanted.picture(at), each.type, each.bytes, until)
            for at, each in enumerate(wanted.pictures)
        ]
        return web.json_response({"expires": stamp(wanted.uploads_until), "uploads": uploads})

    async def start(self, request: web.Request) -> web.Response:
        """Check the pictures, and hand the set to the workers; a repeated call publishes again.

        The response has the pictures that look like another one.
        """
        found, generation = await self._found(request)
        if found.stage == "uploading":
            await self._check_pictures(found)
            found.copies = await self._find_copies(found)
            await self._take_place(found)
            found.enter("waiting", self._now())
            await self._write(found, generation)
        if found.stage not in ENDED:
            await self._publish(json.dumps({"user": found.user, "set": found.name}).encode())
        return web.json_response({"stage": found.stage, **_copies_of(found)}, status=202)

    async def show(self, request: web.Request) -> web.Response:
        """Show how far a set is, and URLs of its images once it is done."""
        found, _ = await self._found(request)
        shown: dict[str, Any] = {
            "callback": found.called,
            "error": found.error,
            "seconds": found.seconds,
            "stage": found.stage,
            **_copies_of(found),
        }
        if found.stage == "done":
            images = range(len(found.prompts))
            shown["images"] = [await self._signer.download(found.result(at)) for at in images]
            shown["adapter"] = await self._signer.download(found.archived_adapter)
        return web.json_response(shown)

    async def erase(self, request: web.Request) -> web.Response:
        """Begin to delete everything of a user; from now on nothing of theirs is taken."""
        user = checked_name("user", request.match_info["user"])
        # random, so that nobody can check a guess of the user against the proof
        begun = {"id": uuid.uuid4().hex, "since": self._now()}
        try:
            await self._objects.write(tombstone(user), json.dumps(begun).encode(), generation=0)
        except Changed:
            there = await self._objects.read(tombstone(user))
            if there is None:
                rule = "must not be one whose deletion completes now: repeat the call"
                raise Refused(409, f"user: {rule}, got {user}") from None
            begun = json.loads(there[0])
        message = {"user": user, "erasure": begun["id"]}
        await self._publish_erasure(json.dumps(message).encode())
        return web.json_response({"erasure": begun["id"]}, status=202)

    async def erasure(self, request: web.Request) -> web.Response:
        """Show the proof of a deletion: what was deleted, and that nothing was left."""
        name = request.match_info["id"]
        is_one = _ERASURE.fullmatch(name) is not None
        there = await self._objects.read(f"erasures/{name}.json") if is_one else None
        if there is None:
            raise Refused(404, f"erasure: must be one that is complete, got {name[:80]!r}")
        return web.json_response(json.loads(there[0]))

    async def _found(self, request: web.Request) -> tuple[Set, int]:
        user = checked_name("user", request.match_info["user"])
        name = checked_name("set", request.match_info["set"])
        there = await self._objects.read(state_of(user, name))
        if there is None or await self._objects.read(tombstone(user)) is not None:
            raise Refused(404, f"set: must be one of user {user}, got {name}")
        return from_bytes(there[0]), there[1]

    async def _refuse_erased(self, user: str) -> None:
        if await self._objects.read(tombstone(user)) is not None:
            raise Refused(409, f"user: must not be one whose data is being deleted, got {user}")

    async def _write(self, found: Set, generation: int) -> int:
        try:
            return await write(self._objects, found, generation)
        except Lost:
            raise _changed(found) from None

    async def _take_place(self, found: Set) -> None:
        now = self._now()
        until = now + self._settings.upload_seconds  # far more than a call can last
        await take_place(self._objects, found, self._settings.max_open_sets, now, until)

    async def _check_pictures(self, found: Set) -> None:
        entries = await self._objects.entries(f"{found.folder}pictures/")
        sizes = {each.name: each.size for each in entries}
        for at, picture in enumerate(found.pictures):
            name = found.picture(at)
            if name not in sizes:
                raise Refused(409, f"pictures[{at}]: must be uploaded, got nothing")
            if sizes[name] > picture.bytes:
                rule = f"must have at most {picture.bytes} bytes"
                raise Refused(409, f"pictures[{at}]: {rule}, got {sizes[name]}")
            head = await self._objects.read_range(name, 0, min(_HEAD, sizes[name]))
            if not is_of(picture.type, head):
                raise Refused(409, f"pictures[{at}]: must be {picture.type}, got another type")

    async def _find_copies(self, found: Set) -> dict[str, int]:
        """Return the picture that each further picture looks like.

        Raises:
            Refused: A picture cannot be read, or too few differ.
        """
        hashes: list[imagehash.ImageHash] = []
        for at in range(len(found.pictures)):
            there = await self._objects.read(found.picture(at))
            if there is None:
                raise Refused(409, f"pictures[{at}]: must be uploaded, got nothing")
            try:
                loop = asyncio.get_running_loop()
                hashes.append(await loop.run_in_executor(_DECODER, perceptual_hash, there[0]))
            except ValueError as error:
                raise Refused(409, f"pictures[{at}]: {error}") from None
        alike, least = copies(hashes), self._settings.min_photos
        if (different := len(hashes) - len(alike)) < least:
            shown = ", ".join(f"{at} looks like {first}" for at, first in alike.items())
            rule = f"must have at least {least} that look different"
            raise Refused(409, f"pictures: {rule}, got {different}: {shown}")
        return {str(at): first for at, first in alike.items()}


def _copies_of(found: Set) -> dict[str, Any]:
    """Return the pictures of a set that look like another one, as clients see them."""
    shown = [{"picture": int(at), "looks_like": first} for at, first in found.copies.items()]
    return {"copies": shown} if shown else {}


def _changed(found: Set) -> Refused:
    return Refused(409, f"set: was changed at the same time, got {found.name}")


async def _healthy(_: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer each error with one message; a failure of Google's services is worth a retry."""
    try:
        return await handler(request)
    except Refused as error:
        return web.json_response({"error": str(error)}, status=error.status)
    except (BucketError, SigningError, OSError) as error:
        reason = str(error) if not isinstance(error, OSError) else type(error).__name__
        say(logging.ERROR, reason)
        return web.json_response(
            {"error": f"service: must be reachable, got {reason}"},
            status=503,
            headers={"Retry-After": "5"},
        )
    except web.HTTPException as error:
        return web.json_response({"error": error.reason}, status=error.status)
    except Exception as error:  # noqa: BLE001 - its text may have a prompt or a user's name
        say(logging.ERROR, type(error).__name__)
        return web.json_response({"error": "service: failed, see its log"}, status=500)
