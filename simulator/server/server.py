"""HTTP in front of an engine: routes, keys, counts, and a shutdown like vLLM's."""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable

from aiohttp import web

from simulator.engine import logs
from simulator.engine.engine import Engine
from simulator.engine.exposition import CONTENT_TYPE
from simulator.server import protocol, text
from simulator.server.errors import ApiError
from simulator.server.generation import Generation
from simulator.server.models_api import ServedModels
from twin.engines.vllm_flags import version

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_log = logging.getLogger("vllm")
_LARGEST_BODY = 64 * 2**20


class ApiServer:
    """The API of one engine; `app` can be served anywhere, `start` serves it as the flags say."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._deployment = engine.deployment
        self._keys: list[str] = list(engine.deployment.flags.api_key or [])
        self._models = ServedModels(engine)
        self._generation = Generation(engine, self._models)
        self._logs_requests = not engine.deployment.flags.disable_uvicorn_access_log
        self._in_flight = 0
        self._runner: web.AppRunner | None = None
        self._steps: asyncio.Task[None] | None = None
        self.app = web.Application(middlewares=[self._guard], client_max_size=_LARGEST_BODY)
        self.app.add_routes(self._routes())
        self.app.on_startup.append(self._start_steps)
        self.app.on_cleanup.append(self._stop_steps)

    def _routes(self) -> list[web.RouteDef]:
        routes = [
            web.get("/health", self._health),
            web.get("/ping", self._health),
            web.post("/ping", self._health),
            web.get("/load", self._load),
            web.get("/version", self._version),
            web.get("/metrics", self._metrics),
            web.get("/v1/models", self._models.show),
            web.post("/v1/completions", self._generation.completions),
            web.post("/v1/chat/completions", self._generation.chat),
            web.post("/tokenize", self._tokenize),
        ]
        if self._deployment.pooling:
            routes.append(web.post("/v1/embeddings", self._embeddings))
        if self._deployment.runtime_lora:
            routes.append(web.post("/v1/load_lora_adapter", self._models.load))
            routes.append(web.post("/v1/unload_lora_adapter", self._models.unload))
        return routes

    async def _start_steps(self, _app: web.Application) -> None:
        self._steps = asyncio.create_task(self._engine.run())

    async def _stop_steps(self, _app: web.Application) -> None:
        if self._steps is not None:
            self._steps.cancel()
            await asyncio.gather(self._steps, return_exceptions=True)

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        with logs.part_of_trace(request.headers):
            return await self._guarded(request, handler)

    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        counted = request.method == "POST"
        self._in_flight += counted
        status = 500
        try:
            self._check_key(request)
            response = await handler(request)
            status = response.status
            return response
        except ApiError as error:
            status = error.status
            return error.response()
        except web.HTTPException as error:
            status = error.status
            return web.json_response({"detail": error.reason}, status=status)
        except (ConnectionResetError, asyncio.CancelledError):
            status = 499
            raise
        finally:
            self._in_flight -= counted
            self._count(request, status)

    def _check_key(self, http: web.Request) -> None:
        if not self._keys or not http.path.startswith("/v1"):
            return
        given = http.headers.get("Authorization", "").removeprefix("Bearer ").encode()
        if not any(secrets.compare_digest(given, key.encode()) for key in self._keys):
            raise ApiError(401, "Unauthorized")

    def _count(self, http: web.Request, status: int) -> None:
        route = http.match_info.route.resource
        handler = route.canonical if route is not None else "none"
        self._engine.metrics.http_requests.add(1, handler, http.method, f"{status // 100}xx")
        if self._logs_requests and http.method == "POST":
            _log.info('"POST %s HTTP/1.1" %d', http.path, status)

    async def _health(self, _http: web.Request) -> web.Response:
        return web.Response(status=503 if self._engine.dead else 200)

    async def _load(self, _http: web.Request) -> web.Response:
        return web.json_response({"server_load": self._in_flight})

    async def _version(self, _http: web.Request) -> web.Response:
        return web.json_response({"version": version()})

    async def _metrics(self, _http: web.Request) -> web.Response:
        body = self._engine.page().encode()
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})

    async def _tokenize(self, http: web.Request) -> web.Response:
        body = await protocol.read_json(http)
        self._models.resolve(body.get("model"))
        if "messages" in body:
            tokens = text.tokenize(protocol.chat_text(body["messages"]))
        else:
            tokens = protocol.prompt_tokens(body.get("prompt"))[0]
        longest = self._deployment.max_model_len
        answer = {"count": len(tokens), "max_model_len": longest, "tokens": tokens}
        return web.json_response({**answer, "token_strs": None})

    async def _embeddings(self, http: web.Request) -> web.Response:
        body = await protocol.read_json(http)
        model, adapter = self._models.resolve(body.get("model"))
        prompts = protocol.prompt_tokens(body.get("input"), "input")
        for prompt in prompts:
            protocol.check_length(prompt, self._deployment.max_model_len, output=0)
        requests = [
            self._engine.submit(prompt, (), 1, adapter=adapter, pooling=True) for prompt in prompts
        ]
        for request in requests:
            async for _ in self._engine.results(request):
                pass
        width = body.get("dimensions")
        data = [
            {"index": i, "object": "embedding", "embedding": protocol.embedding(prompt, width)}
            for i, prompt in enumerate(prompts)
        ]
        tokens = sum(map(len, prompts))
        usage = {"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0}
        return web.json_response({"object": "list", "data": data, "model": model, "usage": usage})

    async def start(self) -> None:
        """Listen on the pod's address and the port of the flags.

        Raises:
            OSError: the port is taken.
        """
        flags = self._deployment.flags
        drain = float(flags.shutdown_timeout or 0)
        self._runner = web.AppRunner(
            self.app, access_log=None, handle_signals=False, shutdown_timeout=max(drain, 0.1)
        )
        await self._runner.setup()
        address = self._deployment.surroundings.address
        await self._engine.kv.serve(address, self._engine.release)
        await web.TCPSite(self._runner, address, flags.port or 8000, backlog=2048).start()

    async def stop(self) -> None:
        """Stop as vLLM does: accept nothing more; finish what runs within `--shutdown-timeout`.

        Without that flag vLLM aborts running requests at once, and so does this.
        """
        if not self._deployment.flags.shutdown_timeout:
            self._engine.abort_all()
        if self._runner is not None:
            await self._runner.cleanup()
        await self._engine.kv.close()

    async def kill(self) -> None:
        """End as a killed process does: open connections break and nobody gets an answer."""
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
