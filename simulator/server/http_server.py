"""An engine with an HTTP server, independent of the dialect: steps, socket, and shutdown."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web

from simulator.engine import logs
from simulator.engine.engine import Engine

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_LARGEST_BODY = 64 * 2**20
_WRITE_SECONDS = 0.1
"""Time limit for writing a complete response."""


class HttpServer:
    """The server of one engine. `app` can be served anywhere; `start` serves it on a socket.

    Args:
        engine: engine of the server.
        port: port on the pod's address.
        drain_seconds: time limit for open requests after a stop, in seconds; None for no limit.
    """

    software: str | None = "uvicorn"
    """Value of the header `Server`; None if the engine sends none."""

    def __init__(self, engine: Engine, port: int, drain_seconds: float | None) -> None:
        self._engine = engine
        self._deployment = engine.deployment
        self._port = port
        self._drain_seconds = drain_seconds
        self._runner: web.AppRunner | None = None
        self._steps: asyncio.Task[None] | None = None
        self.app = web.Application(middlewares=[self._traced], client_max_size=_LARGEST_BODY)
        self.app.on_response_prepare.append(self._name_software)
        self.app.on_startup.append(self._start_steps)
        self.app.on_cleanup.append(self._stop_steps)

    async def answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request, with errors in the server's format and its counters."""
        return await handler(request)

    @web.middleware
    async def _traced(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        with logs.part_of_trace(request.headers):
            return await self.answered(request, handler)

    async def _name_software(self, _request: web.Request, response: web.StreamResponse) -> None:
        response.headers.popall("Server", None)
        if self.software is not None:
            response.headers["Server"] = self.software

    async def _start_steps(self, _app: web.Application) -> None:
        self._steps = asyncio.create_task(self._engine.run())

    async def _stop_steps(self, _app: web.Application) -> None:
        if self._steps is not None:
            self._steps.cancel()
            await asyncio.gather(self._steps, return_exceptions=True)

    async def start(self) -> None:
        """Listen on the pod's address.

        Raises:
            OSError: the port is in use.
        """
        limit = self._drain_seconds
        self._runner = web.AppRunner(
            self.app,
            access_log=None,
            handle_signals=False,
            handler_cancellation=True,  # the engines abort whole answers, too, that nobody reads
            shutdown_timeout=max(limit or 0.0, _WRITE_SECONDS),
        )
        await self._runner.setup()
        address = self._deployment.surroundings.address
        await self._engine.kv.serve(address, self._engine.release)
        await web.TCPSite(self._runner, address, self._port, backlog=2048).start()

    async def stop(self) -> None:
        """Stop accepting requests, let open ones finish within the time limit, and exit."""
        if self._drain_seconds == 0:
            self._engine.abort_all()
        while self._drain_seconds is None and self._engine.unfinished:
            await asyncio.sleep(0.05)
        if self._runner is not None:
            await self._runner.cleanup()
        await self._engine.kv.close()

    async def kill(self) -> None:
        """End like a killed process: open connections break without responses."""
        await self._engine.kv.close()
        if self._runner is None:
            return
        for site in list(self._runner.sites):
            await site.stop()
        server = self._runner.server
        for handler in list(server.connections) if server is not None else []:
            if handler.transport is not None:
                handler.transport.abort()
        await self._runner.cleanup()


def is_known_key(http: web.Request, keys: Sequence[str]) -> bool:
    """Return whether a request's bearer token is one of the keys."""
    given = http.headers.get("Authorization", "").removeprefix("Bearer ").encode()
    return any(secrets.compare_digest(given, key.encode()) for key in keys)
