"""vLLM's HTTP API in front of an engine: routes, keys and counts."""

import asyncio
import logging

from aiohttp import web

from simulator.engine.engine import Engine
from simulator.engine.exposition import CONTENT_TYPE
from simulator.server import fields, messages, protocol, text
from simulator.server.errors import ApiError
from simulator.server.generation import Generation
from simulator.server.http_server import Handler, HttpServer, is_known_key
from simulator.server.models_api import ServedModels
from twin.engines.vllm_flags import version

_log = logging.getLogger("vllm")
PORT = 8000
"""Where vLLM listens by default."""


class ApiServer(HttpServer):
    """The API of one vLLM.

    It stops as vLLM does: without `--shutdown-timeout` running requests are aborted at once.
    """

    def __init__(self, engine: Engine) -> None:
        flags = engine.deployment.flags
        super().__init__(engine, flags.port or PORT, float(flags.shutdown_timeout or 0))
        self._keys: list[str] = list(flags.api_key or [])
        self._models = ServedModels(engine)
        self._generation = Generation(engine, self._models)
        self._logs_requests = not flags.disable_uvicorn_access_log
        self._in_flight = 0
        self.app.add_routes(self._routes())

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

    async def answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request as vLLM does, with its key, its errors and its counts."""
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
        is_open = not self._keys or not http.path.startswith("/v1")
        if not is_open and not is_known_key(http, self._keys):
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
        body = fields.checked(fields.VllmPrompt, await protocol.read_json(http))
        self._models.resolve(body.get("model"))
        if "messages" in body:
            messages.refuse_media(
                body["messages"],
                self._deployment.model,
                has_vision=self._deployment.shape.vision,
            )
            tokens = text.tokenize(messages.chat_text(body["messages"]))
        else:
            tokens = protocol.prompt_tokens(body.get("prompt"))[0]
        longest = self._deployment.max_model_len
        answer = {"count": len(tokens), "max_model_len": longest, "tokens": tokens}
        return web.json_response({**answer, "token_strs": None})

    async def _embeddings(self, http: web.Request) -> web.Response:
        body = fields.checked(fields.VllmPrompt, await protocol.read_json(http))
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
