"""What the programs of streams, batches and personalized images have in common: settings and end.

Their images have this folder. Nothing here needs the client of a message system.
"""

import asyncio
import json
import signal
from collections.abc import Callable
from dataclasses import fields
from typing import Any, cast

from aiohttp import web


class SettingsError(ValueError):
    """The settings cannot be used; the message has field, rule and value."""


def read_object(text: str, kind: type, where: str = "settings") -> dict[str, Any]:
    """Return the JSON object in a text, whose names are all fields of a dataclass.

    Raises:
        SettingsError: It is no JSON object, or has an unknown name. Starts with `where` or a name.
    """
    try:
        content: Any = json.loads(text)
    except ValueError as error:
        raise SettingsError(f"{where}: must be JSON, got {error}") from None
    if not isinstance(content, dict):
        raise SettingsError(f"{where}: must be a JSON object, got {type(content).__name__}")
    given = cast("dict[str, Any]", content)
    known = sorted(each.name for each in fields(kind))
    for name in given:
        if name not in known:
            raise SettingsError(f"{name}: must be one of {', '.join(known)}, got {name!r}")
    return given


def check_endpoint(endpoint: str) -> None:
    """Check the URL of the gateway.

    Raises:
        SettingsError: It is no URL.
    """
    if not endpoint.startswith(("http://", "https://")):
        raise SettingsError(f"endpoint: must be a URL, got {endpoint!r}")


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
