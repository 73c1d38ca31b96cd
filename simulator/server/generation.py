"""Completions and chat, whole and streamed."""

from typing import Any

from aiohttp import web

from simulator.engine.engine import Engine, EngineBusyError
from simulator.engine.request import FinishReason, Request
from simulator.server import fields, messages, protocol, text
from simulator.server.errors import ApiError, engine_dead
from simulator.server.models_api import ServedModels
from simulator.server.tracing import tracer_of

POD_HEADER = "x-gke-inference-pod"
"""Names the pod that answered; the simulation's own, no server of vLLM sends it."""
SPEED_HEADER = "x-gke-inference-speed"
"""Engine seconds in a second of the wall, where that is not 1: times measured by a client are to be
multiplied by it."""


class Generation:
    """Handlers of `/v1/completions` and `/v1/chat/completions`."""

    def __init__(self, engine: Engine, models: ServedModels) -> None:
        self._engine = engine
        self._models = models
        deployment = engine.deployment
        self._tracer = tracer_of(engine)
        self._longest = deployment.max_model_len
        self._has_auto_tools = bool(deployment.flags.enable_auto_tool_choice)
        self._details = bool(deployment.flags.enable_prompt_tokens_details)
        pod = deployment.surroundings.pod
        self._headers = {POD_HEADER: pod} if pod else {}
        speed = getattr(engine.clock, "speed", 1.0)
        if speed != 1:
            self._headers[SPEED_HEADER] = f"{speed:g}"
        self._chunked_usage = bool(deployment.flags.enable_force_include_usage)

    async def completions(self, http: web.Request) -> web.StreamResponse:
        """Answer `POST /v1/completions`."""
        return await self._answer(http, chat=False)

    async def chat(self, http: web.Request) -> web.StreamResponse:
        """Answer `POST /v1/chat/completions`."""
        return await self._answer(http, chat=True)

    async def _answer(self, http: web.Request, *, chat: bool) -> web.StreamResponse:
        form = fields.VllmChat if chat else fields.VllmCompletion
        body = fields.checked(form, await protocol.read_json(http))
        model, adapter = self._models.resolve(body.get("model"))
        if self._engine.deployment.pooling:
            raise ApiError(400, "The model does not support Completions API")
        if self._engine.dead:
            raise engine_dead()
        deployment = self._engine.deployment
        messages.refuse_media(
            body.get("messages"), deployment.model, has_vision=deployment.shape.vision
        )
        ask = protocol.read_ask(
            body, model, self._longest, chat=chat, has_auto_tools=self._has_auto_tools
        )
        remote, keeps_kv = self._engine.kv.wish(body.get("kv_transfer_params"))
        try:
            request = self._engine.submit(
                ask.prompt,
                [text.token(piece) for piece in ask.output],
                ask.max_tokens,
                adapter=adapter,
                priority=ask.priority,
                stream=ask.stream,
                remote=remote,
                keeps_kv=keeps_kv,
            )
        except EngineBusyError as error:
            raise ApiError(503, str(error)) from error
        self._tracer.follow(request, dict(http.headers), ask)
        answer = protocol.Answer.to(ask, include_details=self._details)
        if ask.stream:
            return await self._stream(http, request, answer)
        async for _ in self._engine.results(request):
            pass
        if self._engine.dead:
            raise engine_dead()
        self._tracer.tell(request)
        if request.finished is FinishReason.ERROR:
            raise ApiError(500, "Internal server error")
        reason = (request.finished or FinishReason.ABORT).value
        whole = answer.whole(request.generated, reason, request.cached_tokens)
        if keeps_kv:
            whole["kv_transfer_params"] = self._engine.kv.answer(request)
        return web.json_response(whole, headers=self._headers)

    async def _stream(
        self, http: web.Request, request: Request, answer: protocol.Answer
    ) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream; charset=utf-8", **self._headers}
        )
        results = self._engine.results(request)
        try:
            await response.prepare(http)
            if answer.ask.chat:
                await _send(response, answer.chunk(None))
            if answer.tool is not None:
                await _send(response, answer.calling())
            sent = 0
            plain = protocol.plain_chunk(answer)
            async for generated in results:
                piece = "".join(answer.ask.output[sent:generated])
                sent = generated
                if self._engine.dead:
                    await _send(response, engine_dead().body())
                    break
                reason = request.finished.value if request.finished else None
                if reason is None and not answer.ask.continuous_usage:
                    await response.write(plain(piece))
                    continue
                usage = None
                if answer.ask.continuous_usage:
                    usage = answer.usage(generated, request.cached_tokens)
                await _send(response, answer.chunk(piece, reason, usage))
            if (answer.ask.usage_chunk or self._chunked_usage) and not self._engine.dead:
                await _send(response, answer.usage_event(sent, request.cached_tokens))
            await response.write(b"data: [DONE]\n\n")
            await response.write_eof()
        finally:
            self._tracer.tell(request)
            await results.aclose()  # the client may have gone: the request is aborted
        return response


async def _send(response: web.StreamResponse, body: dict[str, Any]) -> None:
    await response.write(protocol.event(body))
