"""The HTTP side: OpenAI's images API, videos, health and metrics."""

import asyncio
import base64
import contextlib
import json
import logging
import re
import secrets
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from workloads.common import logs

from . import edits, videos
from .config import Settings
from .metrics import Metrics
from .protocol import (
    EDITS,
    IMAGES,
    VIDEOS,
    ApiError,
    ImageRequest,
    answer,
    model_list,
    parse,
)
from .service import Service, Shown
from .streaming import respond

_LARGEST_BODY = 1_000_000
_DECODER = ThreadPoolExecutor(1, "decoder")
"""Images are decoded one at a time: one takes up to some hundred MiB."""
_SERVICE = web.AppKey("service", Service)
_Read = Callable[[web.Request], Awaitable[ImageRequest]]


def application(settings: Settings) -> web.Application:
    """Return the application; its workers start with it."""
    metrics = Metrics(settings.bases)
    app = web.Application(client_max_size=_LARGEST_BODY, middlewares=[_errors(metrics)])

    async def start(app: web.Application) -> None:
        app[_SERVICE] = Service(settings, metrics)
        app[_SERVICE].start()

    def of_json(checked: Callable[[Any, Settings], ImageRequest]) -> _Read:
        async def read(request: web.Request) -> ImageRequest:
            try:
                body = await request.json()
            except (ValueError, LookupError) as error:  # not JSON, or an unknown charset
                raise ApiError(400, f"the body is not JSON: {error}") from error
            return await asyncio.to_thread(checked, body, settings)  # a live adapter is on a share

        return read

    async def read_edit(request: web.Request) -> ImageRequest:
        body = await _body(request, settings.max_edit_bytes or _LARGEST_BODY)
        kinds = request.headers.getall("Content-Type", [])

        def decoded() -> ImageRequest:
            return edits.parsed(edits.read(body, kinds), settings)

        return await asyncio.get_running_loop().run_in_executor(_DECODER, decoded)

    async def generate(request: web.Request) -> web.StreamResponse:
        return await _generate(request, metrics, of_json(parse))

    async def edit(request: web.Request) -> web.StreamResponse:
        return await _generate(request, metrics, read_edit)

    async def generate_video(request: web.Request) -> web.StreamResponse:
        return await _generate(request, metrics, of_json(videos.parse))

    async def page(_: web.Request) -> web.StreamResponse:
        return web.Response(body=metrics.text(), headers={"Content-Type": "text/plain"})

    async def models(_: web.Request) -> web.StreamResponse:
        return web.json_response(await asyncio.to_thread(model_list, settings))

    app.on_startup.append(start)
    app.router.add_get("/health", _health)
    app.router.add_get("/live", _live)
    app.router.add_get("/metrics", page)
    app.router.add_get("/v1/models", models)
    app.router.add_post(EDITS, edit)
    app.router.add_post(IMAGES, generate)
    app.router.add_post(VIDEOS, generate_video)
    return app


async def _generate(request: web.Request, metrics: Metrics, read: _Read) -> web.StreamResponse:
    trace = trace_of(request.headers.get("traceparent"))
    begun = time.monotonic()
    asked = await read(request)
    outcome = "failed"

    async def draw(shown: Shown | None = None) -> list[str]:
        nonlocal outcome
        try:
            images = await request.app[_SERVICE].draw(asked, trace, shown)
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        outcome = "drawn"
        return images

    try:
        if asked.is_streamed:
            return await respond(request, asked, draw)
        files = await draw()
        if asked.frames:
            return _video(asked, files[0])
        return web.json_response(answer(asked, files, int(time.time())))
    finally:
        seconds = time.monotonic() - begun
        metrics.request_seconds.labels(asked.base).observe(seconds)
        logs.say(
            logging.INFO,
            f"{asked.count} of {asked.width}x{asked.height}: {outcome}",
            model=asked.model,
            outcome=outcome,
            seconds=round(seconds, 3),
            seed=asked.seed,
            steps=asked.steps,
            trace_id=trace,
            **({"frames": asked.frames} if asked.frames > 0 else {}),
            **({"strength": asked.edit.strength} if asked.edit else {}),
        )


async def _body(request: web.Request, most: int) -> bytes:
    """Return the body of a request.

    Raises:
        ApiError: 413: it is too large.
    """
    found = bytearray()
    if (request.content_length or 0) <= most:
        async for piece in request.content.iter_any():
            found += piece
            if len(found) > most:
                break
        else:
            return bytes(found)
    message = f"the body must have at most {most} bytes"
    raise ApiError(413, message, code="request_too_large")


def _video(asked: ImageRequest, file: str) -> web.Response:
    """Return the file; what a response for images has in its body is in headers."""
    return web.Response(
        body=base64.b64decode(file),
        content_type="video/mp4",
        headers={"X-Model": asked.model, "X-Seed": str(asked.seed)},
    )


async def _health(request: web.Request) -> web.StreamResponse:
    """Return 200 only if requests are accepted; for readiness and startup probes."""
    state, workers = request.app[_SERVICE].health()
    status = 200 if state == "ready" else 503
    return web.json_response({"status": state, "workers": workers}, status=status)


async def _live(request: web.Request) -> web.StreamResponse:
    """Return 503 only if a restart is required; for liveness probes."""
    state, _ = request.app[_SERVICE].health()
    return web.json_response({"status": state}, status=503 if state == "broken" else 200)


def _errors(metrics: Metrics) -> Middleware:
    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        """Return errors in OpenAI's format, and count responses."""
        response = await _answered(request, handler)
        if request.path in (EDITS, IMAGES, VIDEOS):
            metrics.requests.labels(str(response.status)).inc()
        return response

    return middleware


async def _answered(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except ApiError as error:
        headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
        return web.json_response(error.body(), status=error.status, headers=headers)
    except web.HTTPException as error:
        refused = ApiError(error.status, error.reason)
        return web.json_response(refused.body(), status=error.status)
    except Exception:  # noqa: BLE001 - whatever it is, the client gets an error it can read
        logs.say_failed("a request failed")
        failed = ApiError(500, "the server failed", code="internal_error")
        return web.json_response(failed.body(), status=500)


async def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT, then finish open requests."""
    logs.set_up(sys.stdout, logging.INFO, with_tracebacks=True)
    app = application(settings)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, settings.host, settings.port)
    await site.start()
    logs.say(logging.INFO, "listening", **_summary(settings))
    asked_to_end = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked_to_end.set)
    await asked_to_end.wait()
    await app[_SERVICE].drain()
    with contextlib.suppress(TimeoutError):
        await runner.cleanup()


def _summary(settings: Settings) -> dict[str, object]:
    sizes = [f"{width}x{height}" for width, height in settings.sizes]
    return {
        "models": list(settings.bases),
        "adapters": sorted(settings.adapters),
        "port": settings.port,
        "sizes": sizes,
        "workers": settings.workers,
    }


def main(settings: Settings) -> None:
    """Run the server."""
    try:
        asyncio.run(serve(settings))
    except OSError as error:  # such as a port that is taken
        sys.stderr.write(json.dumps({"severity": "ERROR", "message": str(error)}) + "\n")
        sys.exit(2)


_PARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


def trace_of(traceparent: str | None) -> str:
    """Return the trace of a W3C `traceparent`, or a new one."""
    match = _PARENT.fullmatch((traceparent or "").strip().lower())
    return match.group(1) if match else secrets.token_hex(16)
