"""The worker: takes a set from its pictures to the callback, and resumes where another ended."""

import asyncio
import base64
import contextlib
import json
import logging
import shutil
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, Protocol

from workloads.common.logs import say

from . import callback
from .jobs import KINDS, ClusterError, Jobs, ended, job_name, objects_of
from .sets import ENDED, tombstone_of
from .settings import WorkSettings
from .share import ADAPTER_FILE, is_marked, is_of_others, mark, remove
from .store import BucketError, Changed, Held, Lost, Objects, take

_LOOK_SECONDS: Final = 2.0
_LONGEST_WAIT: Final = 60.0
_MISSING: Final = "missing"


class Failed(Exception):
    """A set cannot be finished; its user sees the message."""


class Retry(Exception):
    """A service does not answer now; the message is one line."""


class Posts(Protocol):
    """Sends a request by HTTP."""

    async def __call__(self, url: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        """Return status and body.

        Raises:
            Retry: There was no answer.
        """
        ...


class Worker:
    """Processes sets, each under a lease in its state.

    Args:
        settings: Its settings.
        owner: Name of this worker, for its leases.
        objects: The bucket.
        jobs: The training jobs.
        post: Sends requests to the gateway and to callbacks.
        now: Clock.
        sleep: Waits.
    """

    def __init__(
        self,
        settings: WorkSettings,
        owner: str,
        objects: Objects,
        jobs: Jobs,
        post: Posts,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._settings = settings
        self._owner = owner
        self._objects = objects
        self._jobs = jobs
        self._post = post
        self._now = now
        self._sleep = sleep

    async def process(self, user: str, name: str) -> bool:
        """Return whether a set needs no further delivery of its message."""
        try:
            held = await take(
                self._objects, user, name, self._owner, self._settings.lease_seconds, self._now
            )
            if held is None:
                return True  # it was deleted, or has ended
            return await self._under_lease(held)
        except Lost:
            return False  # its worker may be gone by the next delivery
        except (BucketError, ClusterError, Retry) as error:
            say(logging.WARNING, f"a set waits: {type(error).__name__}: {error}")
            return False
        except Exception as error:  # noqa: BLE001 - its text may have a prompt or a user's name
            say(logging.ERROR, f"a set waits: {type(error).__name__}")
            return False

    async def _under_lease(self, held: Held) -> bool:
        work = asyncio.create_task(self._finish(held))
        keep = asyncio.create_task(held.keep())
        try:
            await asyncio.wait({work, keep}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                keep.result()  # raises why the lease is lost
            work.result()
        except Lost:
            raise
        except (Exception, asyncio.CancelledError):
            for task in (work, keep):
                await _cancelled(task)
            with contextlib.suppress(Lost, BucketError):
                await held.release()
            raise
        finally:
            for task in (work, keep):
                await _cancelled(task)
        return True

    async def _finish(self, held: Held) -> None:
        stages = {
            "waiting": self._submit,
            "training": self._train,
            "drawing": self._draw,
            "archiving": self._archive,
            "calling": self._call,
        }
        while held.set.stage not in ENDED:
            if await self._objects.read(tombstone_of(held.set.user)) is not None:
                raise Lost(held.set.user)
            try:
                await stages[held.set.stage](held)
            except Failed as error:
                held.set.error = str(error)
                await held.enter("calling")
            say(logging.INFO, "stage", stage=held.set.stage, seconds=held.set.seconds)

    async def _submit(self, held: Held) -> None:
        content, job = objects_of(held.set, self._settings)
        if await self._jobs.get(job_name(held.set)) is None:
            adapter = held.set.adapter
            if await asyncio.to_thread(is_of_others, self._settings, adapter):
                rule = "must not replace a folder of the shared folder that no set has made"
                raise Failed(f"training: {rule}, got {adapter}")
            await asyncio.to_thread(mark, self._settings, adapter)
            # of an earlier set of this name, which no longer has a state
            await asyncio.to_thread(shutil.rmtree, self._file(held).parent, True)
        await self._jobs.create("configmaps", content)
        await self._jobs.create("jobs", job)
        await held.enter("training")

    async def _train(self, held: Held) -> None:
        name = job_name(held.set)
        # again, because a worker that looks at old marks may have deleted it since then
        await asyncio.to_thread(mark, self._settings, held.set.adapter)
        until = held.set.since + self._settings.train_seconds
        while (end := await self._end(name)) is None:
            if self._now() > until:
                raise Failed(f"training: must end within {self._settings.train_seconds:.0f} s")
            await self._sleep(_LOOK_SECONDS)
        # a share that does not answer must not stop the renewal of leases
        has_adapter = await asyncio.to_thread(self._file(held).is_file)
        if end == _MISSING and not has_adapter:
            await held.enter("waiting")  # somebody deleted the job: it is created again
            return
        if end not in ("Complete", _MISSING):
            raise Failed(f"training: must complete, got {end}")
        if not has_adapter:
            raise Failed("training: must leave an adapter, got none")
        await held.enter("drawing")

    async def _end(self, name: str) -> str | None:
        job = await self._jobs.get(name)
        return _MISSING if job is None else ended(job)

    async def _draw(self, held: Held) -> None:
        found = held.set
        for at, prompt in enumerate(found.prompts):
            if await self._objects.entries(found.result(at)):
                continue
            try:
                image = await self._image(found.adapter, prompt, at)
            except Retry as error:
                if self._now() > found.since + self._settings.draw_seconds:
                    rule = f"must be possible within {self._settings.draw_seconds:.0f} s"
                    raise Failed(f"generation: {rule}, got {error}") from None
                raise
            with contextlib.suppress(Changed):  # the same image, from a write that was repeated
                await self._objects.write(found.result(at), image, generation=0, kind="image/png")
        await held.enter("archiving")

    async def _image(self, adapter: str, prompt: str, seed: int) -> bytes:
        body = {"model": adapter, "prompt": prompt, "response_format": "b64_json", "seed": seed}
        headers = {
            "content-type": "application/json",
            "x-gateway-base-model-name": self._settings.model,
        }
        if self._settings.key_file:
            key = Path(self._settings.key_file).read_text().strip()
            headers["authorization"] = f"Bearer {key}"
        url = f"{self._settings.endpoint}/v1/images/generations"
        status, answer = await self._post(url, json.dumps(body).encode(), headers)
        if status == 429 or status >= 500 or status == 404:
            raise Retry(f"generation: HTTP {status}")  # 404: a server has yet to see the adapter
        if status != 200:
            raise Failed(f"generation: must be possible, got HTTP {status}")
        try:
            return base64.b64decode(json.loads(answer)["data"][0]["b64_json"], validate=True)
        except (ValueError, LookupError, TypeError):
            raise Failed("generation: must return an image, got another answer") from None

    async def _archive(self, held: Held) -> None:
        file = self._file(held)
        if not await asyncio.to_thread(file.is_file):
            raise Failed("archiving: must find the adapter, got none")
        with contextlib.suppress(Changed):  # from an attempt whose worker died after it
            await self._objects.upload(
                held.set.archived_adapter, file, {}, "application/octet-stream"
            )
        await self._forget_job(held)
        await held.enter("calling")

    async def _call(self, held: Held) -> None:
        found = held.set
        if not found.called:
            await self._deliver(held)
        if found.error:
            await self._forget_job(held)
        await held.enter("failed" if found.error else "done")
        await held.release()

    async def _deliver(self, held: Held) -> None:
        """Call back until it is taken; each attempt is counted before it is made."""
        found = held.set
        secret = Path(self._settings.secret_file).read_bytes().strip()
        if not secret:
            raise Retry("the secret of callbacks must not be empty")
        body = json.dumps(
            {
                "error": found.error,
                "images": 0 if found.error else len(found.prompts),
                "seconds": found.seconds,
                "set": found.name,
                "user": found.user,
            },
            sort_keys=True,
        ).encode()
        while not found.called:
            found.tries += 1
            await held.save()
            signed = callback.headers(secret, body, found.id, self._now())
            try:
                status, _ = await self._post(
                    found.callback, body, {"content-type": "application/json", **signed}
                )
                result = f"HTTP {status}"
            except Retry as error:
                status, result = 0, str(error)
            if 200 <= status < 300:
                found.called = "delivered"
            elif 300 <= status < 500 and status not in (408, 425, 429):
                found.called = f"refused: {result}"
            elif found.tries >= self._settings.callback_tries:
                found.called = f"gave up: {result}"
            else:
                await self._sleep(min(_LONGEST_WAIT, 2.0**found.tries))

    async def _forget_job(self, held: Held) -> None:
        """Delete job and checkpoint; what its last pod still writes goes later (share.py)."""
        for kind in KINDS:
            await self._jobs.delete(kind, job_name(held.set))
        adapter = held.set.adapter
        if await asyncio.to_thread(is_marked, self._settings, adapter):
            await asyncio.to_thread(remove, Path(self._settings.shared) / "work" / adapter)

    def _file(self, held: Held) -> Path:
        folder = Path(self._settings.shared) / self._settings.adapters / held.set.adapter
        return folder / ADAPTER_FILE


async def _cancelled(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await task
