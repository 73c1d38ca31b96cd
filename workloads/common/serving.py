"""The metrics, the health and the end of a program."""

import asyncio
import signal
from collections.abc import Callable

from aiohttp import web


def stopping() -> asyncio.Event:
    """Return an event that SIGTERM and SIGINT set, in the running loop."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


async def watch(
    address: str, port: int, text: Callable[[], bytes], is_well: Callable[[], bool]
) -> web.AppRunner:
    """Serve `/metrics` and `/healthz`, which is 503 while the program drains.

    Args:
        address: Address to listen on; empty for all.
        port: Port to listen on.
        text: Returns the metrics.
        is_well: Returns whether the program takes more work.
    """

    async def show(_: web.Request) -> web.Response:
        return web.Response(body=text(), content_type="text/plain")

    async def health(_: web.Request) -> web.Response:
        return web.Response(status=200 if is_well() else 503)

    app = web.Application()
    app.router.add_get("/metrics", show)
    app.router.add_get("/healthz", health)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, address or None, port).start()
    return runner
