"""vLLM's Messages API, in the form of Anthropic's: whole, streamed, and the count of a prompt."""

from aiohttp import web

from simulator.server.bodies import fields
from simulator.server.bodies.anthropic import (
    MessagesError,
    MessageWriter,
    VllmCount,
    VllmMessages,
    chat_of,
    failed,
)
from simulator.server.bodies.asks import read_json
from simulator.server.bodies.errors import ApiError, engine_dead
from simulator.server.bodies.json_answers import json_response
from simulator.server.generation import Generation
from simulator.server.models_api import ServedModels


class Messages:
    """Handlers of `/v1/messages` and what is below it."""

    def __init__(self, models: ServedModels, generation: Generation) -> None:
        self._models = models
        self._generation = generation

    def routes(self) -> list[web.RouteDef]:
        """Return the routes."""
        return [
            web.post("/v1/messages", self._create),
            web.post("/v1/messages/count_tokens", self._count),
        ]

    async def _create(self, http: web.Request) -> web.StreamResponse:
        body = fields.checked(VllmMessages, await read_json(http))
        try:
            model, adapter = self._models.resolve(body["model"])
            asks = self._generation.read(chat_of(body), model, chat=True)
            (request,) = self._generation.begin(http, asks, adapter)
            writer = MessageWriter(asks[0], self._generation.has_details)
            if asks[0].stream:
                error = failed(engine_dead())
                return await self._generation.stream_typed(http, request, writer, error)
            reason = await self._generation.finish(request)
            whole = writer.whole(reason, request.generated, request.cached_tokens)
        except ApiError as error:
            raise MessagesError(error) from error
        return json_response(whole, headers=self._generation.headers)

    async def _count(self, http: web.Request) -> web.Response:
        body = fields.checked(VllmCount, await read_json(http))
        try:
            model, _ = self._models.resolve(body["model"])
            (ask,) = self._generation.read(chat_of(body), model, chat=True)
        except ApiError as error:
            raise MessagesError(error) from error
        count = len(ask.prompt)
        management = {"original_input_tokens": count}
        return json_response({"input_tokens": count, "context_management": management})
