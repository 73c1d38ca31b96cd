"""vLLM's Messages API, in the form of Anthropic's: whole, streamed, and the count of a prompt."""

from aiohttp import web

from simulator.engine.engine import Engine
from simulator.engine.request import Request
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
from simulator.server.generation import EVENT_STREAM, Generation
from simulator.server.models_api import ServedModels


class Messages:
    """Handlers of `/v1/messages` and what is below it."""

    def __init__(self, engine: Engine, models: ServedModels, generation: Generation) -> None:
        self._engine = engine
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
                return await self._stream(http, request, writer)
            reason = await self._generation.finish(request)
            whole = writer.whole(reason, request.generated, request.cached_tokens)
        except ApiError as error:
            raise MessagesError(error) from error
        return json_response(whole, headers=self._generation.headers)

    async def _stream(
        self, http: web.Request, request: Request, writer: MessageWriter
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={**EVENT_STREAM, **self._generation.headers})
        results = self._engine.results(request)
        try:
            await response.prepare(http)
            for each in writer.beginning():
                await response.write(each)
            sent = 0
            async for generated in results:
                if self._engine.dead:
                    break
                await response.write(writer.delta(sent, generated))
                sent = generated
            if self._engine.dead:
                await response.write(failed(engine_dead()))
            else:
                reason = request.finished.value if request.finished else "abort"
                for each in writer.end(reason, request.generated, request.cached_tokens):
                    await response.write(each)
            await response.write_eof()
        finally:
            await results.aclose()
            self._generation.end(request)
        return response

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
