"""Starts a role: the service on Cloud Run, or the worker in the cluster."""

import asyncio
import json
import logging
import os
import socket
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp import web

from workloads.common.bucket import Bucket
from workloads.common.logs import say, set_up
from workloads.common.serving import stopping
from workloads.stream.source import Delivery

from .adopting import adopt
from .erasure import Eraser
from .front import Front
from .jobs import SetJobs
from .sets import Refused, checked_name
from .settings import FrontSettings, SettingsError, WorkSettings, read
from .share import Sweeper
from .store import BucketError, Objects
from .worker import Retry, Worker

_ROLES: Final = ("front", "work")
_TIMEOUT: Final = aiohttp.ClientTimeout(total=600, connect=10)
_CALLBACK_SECONDS: Final = 20.0
_ERASURES: Final = 100
"""Deletions that a worker has at a time; nearly all of each is waiting."""
_ERASURE_SECONDS: Final = 3600.0
_SWEEP_SECONDS: Final = 3600.0
_LARGEST_ANSWER: Final = 32 * 2**20
_PIECE: Final = 2**16
_SHUTDOWN_SECONDS: Final = 8.0
"""Cloud Run ends an instance 10 s after SIGTERM."""


def main(arguments: Sequence[str]) -> int:
    """Run until SIGTERM and return the exit code: 2 for settings that cannot be used."""
    set_up(sys.stderr)
    try:
        if len(arguments) != 2 or arguments[0] not in _ROLES:
            raise SettingsError(f"arguments: must be a role ({', '.join(_ROLES)}) and a file")
        role, file = arguments
        # Cloud Run has no ConfigMaps: there, the settings are a variable
        text = os.environ["SETTINGS"] if file == "-" else Path(file).read_text()
        if role == "front":
            asyncio.run(_serve(read(FrontSettings, text)))
        else:
            asyncio.run(_work(read(WorkSettings, text)))
    except (SettingsError, KeyError, OSError) as error:
        say(logging.ERROR, str(error))
        return 2
    return 0


async def _serve(settings: FrontSettings) -> None:
    from workloads.stream.pubsub import PubSubTopic  # noqa: PLC0415 - the worker has no topic

    from .signing import Signer  # noqa: PLC0415

    stop = stopping()
    signer = Signer(settings.bucket, settings.signer, settings.upload_seconds)

    def publisher(name: str) -> Callable[[bytes], Awaitable[None]]:
        topic = PubSubTopic(name)

        async def publish(data: bytes) -> None:
            try:
                await topic.publish(data, {})
            except Exception as error:
                raise OSError("Pub/Sub") from error

        return publish

    publishers = publisher(settings.topic), publisher(settings.erasures_topic)
    app = Front(settings, Bucket(settings.bucket), signer, *publishers).application()
    runner = await _listen(app, int(os.environ.get("PORT", "8080")))
    say(logging.INFO, "serving")
    await stop.wait()
    await runner.cleanup()  # requests that it has are answered


async def _listen(app: web.Application, port: int) -> web.AppRunner:
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    await web.TCPSite(runner, os.environ.get("POD_IP") or None, port).start()
    return runner


async def _work(settings: WorkSettings) -> None:
    from workloads.stream.pubsub import PubSubSource  # noqa: PLC0415 - the service has no subscription

    stop = stopping()
    objects = Bucket(settings.bucket)
    async with aiohttp.ClientSession(timeout=_TIMEOUT) as session:
        groups = {"configmaps": "/api/v1", "jobs": f"/apis/{settings.job['apiVersion']}"}
        namespace = settings.job["metadata"]["namespace"]
        jobs = SetJobs(session, namespace, groups, settings.account)
        owner = f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}"
        worker = Worker(settings, owner, objects, jobs, poster(session))
        eraser = Eraser(settings, objects, jobs)
        # each with its own limit: a deletion begins while all sets that fit are in training
        sources = (
            PubSubSource(settings.subscription, settings.sets, settings.train_seconds * 2),
            PubSubSource(settings.erasures_subscription, _ERASURES, _ERASURE_SECONDS),
        )
        loop = asyncio.get_running_loop()
        running: set[asyncio.Task[None]] = set()

        def receive(delivery: Delivery) -> None:
            def begin() -> None:
                task = asyncio.create_task(_one(delivery, worker, eraser))
                running.add(task)
                task.add_done_callback(running.discard)

            loop.call_soon_threadsafe(begin)

        app = web.Application()
        app.router.add_get("/healthz", _healthy)
        await _listen(app, settings.port)
        for source in sources:
            source.start(receive)
        say(logging.INFO, "working")
        ends: list[asyncio.Task[Any]] = [asyncio.create_task(source.ended()) for source in sources]
        ends.append(asyncio.create_task(stop.wait()))
        sweeps = asyncio.create_task(_sweep(settings, objects))
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        sweeps.cancel()
        for source in sources:
            await source.stop()
        for task in running:
            task.cancel()  # the next worker resumes the stage
        await asyncio.gather(*running, return_exceptions=True)
        for source in sources:
            await source.close()
        for end in ends:
            end.cancel()


async def _sweep(settings: WorkSettings, objects: Objects) -> None:
    """Remove what is too old in the shared folder, now and every hour."""
    while True:
        await sweep_once(settings, objects)
        await asyncio.sleep(_SWEEP_SECONDS)


async def sweep_once(
    settings: WorkSettings, objects: Objects, now: Callable[[], float] = time.time
) -> None:
    """Mark what is of sets, and remove what is too old. Each is done even if the other fails."""

    async def removed() -> None:
        if number := await Sweeper(settings, objects, now).sweep():
            say(logging.INFO, "removed old folders of the shared folder", folders=number)

    for step in (partial(adopt, settings, objects), removed):
        try:
            await step()
        except (BucketError, OSError) as error:
            reason = str(error) if isinstance(error, BucketError) else type(error).__name__
            say(logging.WARNING, f"the shared folder waits: {reason}")
        except Exception as error:  # noqa: BLE001 - its text may have a user's name
            say(logging.ERROR, f"the shared folder waits: {type(error).__name__}")


async def _one(delivery: Delivery, worker: Worker, eraser: Eraser) -> None:
    is_over = False
    try:
        is_over = await handled(delivery.message.data, worker, eraser)
    finally:
        (delivery.done if is_over else delivery.give_back)()


async def handled(data: bytes, worker: Worker, eraser: Eraser) -> bool:
    """Return whether a message needs no further delivery; one that nobody can read does not."""
    try:
        found: dict[str, Any] = json.loads(data)
        user = checked_name("user", str(found["user"]))
        name = None if "erasure" in found else checked_name("set", str(found["set"]))
    except (ValueError, KeyError, TypeError, RecursionError, Refused):
        say(logging.ERROR, "message: must be an object with user and set or erasure")
        return True
    return await (eraser.erase(user) if name is None else worker.process(user, name))


async def _healthy(_: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})


def poster(session: aiohttp.ClientSession) -> Any:
    """Return what sends requests; a redirect of a callback is not followed."""

    async def post(url: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        is_callback = "X-Callback-Id" in headers
        limit = aiohttp.ClientTimeout(total=_CALLBACK_SECONDS) if is_callback else _TIMEOUT
        try:
            async with session.post(
                url, data=body, headers=headers, timeout=limit, allow_redirects=False
            ) as response:
                if is_callback:
                    return response.status, b""
                content = bytearray()
                async for piece in response.content.iter_chunked(_PIECE):
                    content += piece
                    if len(content) > _LARGEST_ANSWER:
                        raise Retry("an answer that is too large")
                return response.status, bytes(content)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Retry(type(error).__name__) from error

    return post
