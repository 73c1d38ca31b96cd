"""Starts the service or a worker: reads settings, opens the bucket, serves metrics and health."""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import aiohttp
from aiohttp import web

from workloads.common.bucket import Bucket, BucketError, Changed
from workloads.common.logs import say, set_up
from workloads.common.pressure import Pressure, look
from workloads.common.serving import stopping, watch

from .asking import Asking
from .batches import Batches
from .engines import engines_of
from .errors import Refused
from .files import Files
from .keeper import Keeper
from .metrics import ServiceMetrics, WorkerMetrics
from .records import EVERYONE
from .settings import Settings, SettingsError, read_settings
from .worker import Worker

TEAM_HEADER: Final = "x-gki-team"
"""Header with the caller: the client gate sets it, and overwrites a value from the client."""
_SHUTDOWN_SECONDS: Final = 60.0
_ENDED: Final = 143
"""Exit code of a process that SIGTERM ended."""
_ROLES: Final = ("serve", "work")
_Call = Callable[[str, web.Request], Awaitable[web.StreamResponse]]


def main(arguments: Sequence[str]) -> int:
    """Run until SIGTERM and return the exit code: 2 for wrong settings, 1 without a bucket.

    With an only batch, 0 means that it needs no worker any more, and 143 that SIGTERM came first.
    """
    set_up(sys.stderr)
    try:
        if len(arguments) not in (2, 3) or arguments[0] not in _ROLES:
            rule = "must be serve or work, a file of settings and perhaps the only batch of work"
            raise SettingsError(f"arguments: {rule}, got {' '.join(arguments)!r}")
        settings = read_settings(Path(arguments[1]))
    except SettingsError as error:
        say(logging.ERROR, str(error))
        return 2
    only = arguments[2] if len(arguments) == 3 else None
    try:
        if arguments[0] == "serve":
            asyncio.run(_serve(settings))
        elif not asyncio.run(_work(settings, only)) and only is not None:
            return _ENDED
    except BucketError as error:
        say(logging.ERROR, str(error))
        return 1
    return 0


async def _work(settings: Settings, only: str | None) -> bool:
    """Answer requests of batches, or only of one; return whether that needs no worker any more."""
    stop = stopping()
    metrics = WorkerMetrics()
    pressure = Pressure(settings.max_in_flight)
    async with aiohttp.ClientSession(trust_env=True) as session:
        asking = Asking(session, settings, pressure, metrics.retried)
        worker = Worker(settings, Bucket(settings.bucket), asking, metrics, only)

        def text() -> bytes:
            metrics.limit.set(pressure.limit)
            metrics.running.set(pressure.running)
            return metrics.text()

        watched = await watch(
            settings.address, settings.metrics_port, text, lambda: not worker.is_draining
        )
        looking = asyncio.create_task(
            look(settings.metrics_of_pickers, settings.queue_most, session, pressure)
        )
        say(logging.INFO, "working")
        try:
            return await worker.run(stop)
        finally:
            looking.cancel()
            await watched.cleanup()


async def _serve(settings: Settings) -> None:
    """Serve files and batches, and advance batches."""
    stop = stopping()
    metrics = ServiceMetrics()
    bucket = Bucket(settings.bucket)
    runner = web.AppRunner(
        application(settings, bucket, metrics),
        access_log=None,
        shutdown_timeout=_SHUTDOWN_SECONDS,
    )
    await runner.setup()
    await web.TCPSite(runner, settings.address or None, settings.port).start()
    watched = await watch(
        settings.address, settings.metrics_port, metrics.text, lambda: not stop.is_set()
    )
    say(logging.INFO, "serving")
    try:
        async with aiohttp.ClientSession() as session:
            await Keeper(settings, bucket, metrics, engines_of(settings, session)).run(stop)
    finally:
        await runner.cleanup()
        await watched.cleanup()


def application(settings: Settings, bucket: Bucket, metrics: ServiceMetrics) -> web.Application:
    """Return the API."""
    files = Files(settings, bucket)
    batches = Batches(settings, bucket, files)

    def called(call: _Call) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                response = await call(_team(settings, request), request)
            except Refused as refused:
                response = refused.response()
            except (BucketError, Changed) as error:
                say(logging.ERROR, "call failed", path=_path(request), why=str(error))
                message = "Files and batches are not available now."
                response = Refused(503, message, code="service_unavailable").response()
            metrics.called(request.method, _path(request), response.status)
            return response

        return handle

    async def health(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def unknown(_: str, request: web.Request) -> web.StreamResponse:
        raise Refused(
            404, f"Unknown request URL: {request.method} {request.path}.", code="unknown_url"
        )

    app = web.Application()
    app.router.add_get("/health", health)
    app.router.add_post("/v1/files", called(files.create))
    app.router.add_get("/v1/files", called(files.list))
    app.router.add_get("/v1/files/{id}", called(files.show))
    app.router.add_delete("/v1/files/{id}", called(files.delete))
    app.router.add_get("/v1/files/{id}/content", called(files.read))
    app.router.add_post("/v1/batches", called(batches.create))
    app.router.add_get("/v1/batches", called(batches.list))
    app.router.add_get("/v1/batches/{id}", called(batches.show))
    app.router.add_post("/v1/batches/{id}/cancel", called(batches.cancel))
    app.router.add_route("*", "/{rest:.*}", called(unknown))
    return app


def _path(request: web.Request) -> str:
    """Return the path of a route, because IDs must not be metric labels."""
    resource = request.match_info.route.resource
    return "other" if resource is None else resource.canonical


def _team(settings: Settings, request: web.Request) -> str:
    """Return the calling team.

    Raises:
        Refused: The gate that sets it is missing, or has other teams.
    """
    if settings.teams is None:
        return EVERYONE
    team = request.headers.get(TEAM_HEADER, "")
    if team not in settings.teams:
        raise Refused(401, "The team of this call is not known.", code="invalid_api_key")
    return team
