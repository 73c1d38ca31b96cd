"""vLLM's Responses API, whole and streamed, without a store of responses."""

from aiohttp import web

from simulator.engine.engine import Engine
from simulator.server.bodies import fields
from simulator.server.bodies.answers import event
from simulator.server.bodies.asks import read_json
from simulator.server.bodies.errors import engine_dead
from simulator.server.bodies.json_answers import json_response
from simulator.server.bodies.responses import ResponseWriter, chat_of, unknown_response
from simulator.server.generation import Generation
from simulator.server.models_api import ServedModels


class Responses:
    """Handlers of `/v1/responses`; a response is stored nowhere, as in vLLM by default."""

    def __init__(self, engine: Engine, models: ServedModels, generation: Generation) -> None:
        self._models = models
        self._generation = generation
        self._longest = engine.deployment.max_model_len
        self._has_tool_parser = bool(engine.deployment.flags.tool_call_parser)

    def routes(self) -> list[web.RouteDef]:
        """Return the routes."""
        return [
            web.post("/v1/responses", self._create),
            web.get("/v1/responses/{response}", self._find),
            web.post("/v1/responses/{response}/cancel", self._find),
        ]

    async def _create(self, http: web.Request) -> web.StreamResponse:
        body = fields.checked(fields.VllmResponse, await read_json(http))
        model, adapter = self._models.resolve(body.get("model"))
        chat = chat_of(body, self._longest, has_tool_parser=self._has_tool_parser)
        asks = self._generation.read(chat, model, chat=True)
        (request,) = self._generation.begin(http, asks, adapter)
        writer = ResponseWriter(body, asks[0])
        if asks[0].stream:
            failed = event(engine_dead().body())
            return await self._generation.stream_typed(http, request, writer, failed)
        reason = await self._generation.finish(request)
        whole = writer.whole(reason, request.generated, request.cached_tokens)
        return json_response(whole, headers=self._generation.headers)

    async def _find(self, http: web.Request) -> web.Response:
        raise unknown_response(http.match_info["response"])
