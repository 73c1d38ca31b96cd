"""vLLM's HTTP API for an engine: routes, API keys and counters."""

import asyncio

from aiohttp import web

from simulator.engine.engine import Engine
from simulator.engine.exposition import CONTENT_TYPE
from simulator.engine.logs import LOG
from simulator.server.bodies import asks, fields, text
from simulator.server.bodies.errors import ApiError
from simulator.server.bodies.images import MediaSupport, chat_prompt
from simulator.server.bodies.json_answers import json_response
from simulator.server.generation import Generation
from simulator.server.http_server import Handler, HttpServer, is_known_key
from simulator.server.messages_api import Messages
from simulator.server.models_api import ServedModels
from simulator.server.pooling_api import Pooling
from simulator.server.responses_api import Responses
from twin.engines.vllm_flags import version

PORT = 8000
"""Default port of vLLM."""


class ApiServer(HttpServer):
    """The API of one vLLM server.

    Like vLLM, it aborts running requests immediately on a stop without `--shutdown-timeout`.
    """

    def __init__(self, engine: Engine) -> None:
        flags = engine.deployment.flags
        super().__init__(engine, flags.port or PORT, float(flags.shutdown_timeout or 0))
        self._keys: list[str] = list(flags.api_key or [])
        self._models = ServedModels(engine)
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
            web.post("/tokenize", self._tokenize),
            web.post("/detokenize", self._detokenize),
        ]
        if self._deployment.pooling:
            routes += Pooling(self._engine, self._models).routes()
        else:
            generation = Generation(self._engine, self._models)
            routes += generation.routes()
            routes += Responses(self._engine, self._models, generation).routes()
            routes += Messages(self._models, generation).routes()
        if self._deployment.runtime_lora:
            routes.append(web.post("/v1/load_lora_adapter", self._models.load))
            routes.append(web.post("/v1/unload_lora_adapter", self._models.unload))
        return routes

    async def answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request like vLLM, with its API keys, errors and counters."""
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
            return json_response({"detail": error.reason}, status=status)
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
            LOG.info('"POST %s HTTP/1.1" %d', http.path, status)

    async def _health(self, _http: web.Request) -> web.Response:
        return web.Response(status=503 if self._engine.dead else 200)

    async def _load(self, _http: web.Request) -> web.Response:
        return json_response({"server_load": self._in_flight})

    async def _version(self, _http: web.Request) -> web.Response:
        return json_response({"version": version()})

    async def _metrics(self, _http: web.Request) -> web.Response:
        body = self._engine.page().encode()
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})

    async def _tokenize(self, http: web.Request) -> web.Response:
        body = fields.checked(fields.VllmPrompt, await asks.read_json(http))
        self._models.resolve(body.get("model"))
        if "messages" in body:
            prompt = chat_prompt(body["messages"], MediaSupport.of(self._deployment))
        else:
            prompt = asks.given_prompts(body.get("prompt"))[0]
        tokens = text.tokenize(prompt) if isinstance(prompt, str) else prompt
        longest = self._deployment.max_model_len
        answer = {"count": len(tokens), "max_model_len": longest, "tokens": tokens}
        pieces = list(map(text.piece_of, tokens)) if body.get("return_token_strs") else None
        return json_response({**answer, "token_strs": pieces})

    async def _detokenize(self, http: web.Request) -> web.Response:
        body = fields.checked(fields.VllmTokens, await asks.read_json(http))
        self._models.resolve(body.get("model"))
        return json_response({"prompt": "".join(map(text.piece_of, body["tokens"]))})
