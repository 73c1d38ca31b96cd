"""Completions and chat, whole and streamed."""

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from functools import partial
from typing import Any, Protocol

from aiohttp import web

from simulator.engine.engine import Engine
from simulator.engine.request import Request
from simulator.server.bodies import fields, log_probabilities, text
from simulator.server.bodies.answers import Answer, event, plain_chunk
from simulator.server.bodies.asks import CompletionRequest, Server, read_asks, read_json
from simulator.server.bodies.errors import engine_dead
from simulator.server.bodies.images import MediaSupport
from simulator.server.bodies.json_answers import json_response
from simulator.server.models_api import ServedModels
from simulator.server.submission import ended, queue_all
from simulator.server.tracing import tracer_of

Json = dict[str, Any]
EVENT_STREAM = {"Content-Type": "text/event-stream; charset=utf-8"}
POD_HEADER = "x-gke-inference-pod"
"""Header with the responding pod, which only the simulation sends."""
SPEED_HEADER = "x-gke-inference-speed"
"""Header with engine seconds per second of real time, if not 1; clients must multiply measured
times by it."""


class TypedWriter(Protocol):
    """A writer of a stream whose events have a type, such as that of a message."""

    def beginning(self) -> Iterator[bytes]:
        """Yield the events before the first token."""
        ...

    def delta(self, sent: int, generated: int) -> bytes:
        """Return the event with the tokens from `sent` up to `generated`."""
        ...

    def end(self, status: str, generated: int, cached: int, /) -> Iterator[bytes]:
        """Yield the events after the last token."""
        ...


class Generation:
    """Handlers of `/v1/completions` and `/v1/chat/completions`."""

    def __init__(self, engine: Engine, models: ServedModels) -> None:
        self._engine = engine
        self._models = models
        deployment = engine.deployment
        self._tracer = tracer_of(engine)
        given = deployment.flags.max_logprobs
        self._server = Server(
            longest=deployment.max_model_len,
            media=MediaSupport.of(deployment),
            has_auto_tools=bool(deployment.flags.enable_auto_tool_choice),
            most_logprobs=log_probabilities.MOST if given is None else int(given),
        )
        self.has_details = bool(deployment.flags.enable_prompt_tokens_details)
        """Whether usage has the tokens of the prompt that were in the cache."""
        pod = deployment.surroundings.pod
        self.headers = {POD_HEADER: pod} if pod else {}
        """Headers of every response."""
        speed = getattr(engine.clock, "speed", 1.0)
        if speed != 1:
            self.headers[SPEED_HEADER] = f"{speed:g}"
        self._forces_usage = bool(deployment.flags.enable_force_include_usage)

    def routes(self) -> list[web.RouteDef]:
        """Return the routes."""
        return [
            web.post("/v1/completions", self._completions),
            web.post("/v1/chat/completions", self._chat),
        ]

    async def _completions(self, http: web.Request) -> web.StreamResponse:
        return await self._answer(http, chat=False)

    async def _chat(self, http: web.Request) -> web.StreamResponse:
        return await self._answer(http, chat=True)

    async def _answer(self, http: web.Request, *, chat: bool) -> web.StreamResponse:
        form = fields.VllmChat if chat else fields.VllmCompletion
        body = fields.checked(form, await read_json(http))
        model, adapter = self._models.resolve(body.get("model"))
        asks = self.read(body, model, chat=chat)
        requests = self.begin(http, asks, adapter, body.get("kv_transfer_params"))
        answers = Answer.to(asks, include_details=self.has_details)
        if asks[0].stream:
            return await self._stream(http, requests, answers)
        whole = await self._whole(requests, answers)
        if requests[0].keeps_kv:
            whole["kv_transfer_params"] = self._engine.kv.answer(requests[0])
        headers = {**self.headers, **load_report(http, self._engine)}
        return json_response(whole, headers=headers)

    def read(self, body: Json, model: str, *, chat: bool) -> list[CompletionRequest]:
        """Return the requests of a body, one per choice.

        Raises:
            ApiError: the body is not valid.
        """
        return read_asks(body, model, self._server, chat=chat)

    def begin(
        self,
        http: web.Request,
        asks: list[CompletionRequest],
        adapter: str | None,
        kv: Json | None = None,
    ) -> list[Request]:
        """Queue requests, all of them or none.

        Args:
            http: the client's request.
            asks: what it asks for, one per choice.
            adapter: LoRA adapter.
            kv: `kv_transfer_params` of the body.

        Raises:
            ApiError: 500 if the engine is dead, 503 if its queue is full.
        """
        remote, keeps_kv = self._engine.kv.wish(kv)
        submissions = (
            partial(
                self._engine.submit,
                ask.prompt,
                [text.token(piece) for piece in ask.output],
                ask.max_tokens,
                adapter=adapter,
                salt=ask.salt,
                priority=ask.priority,
                stream=ask.stream,
                remote=remote,
                keeps_kv=keeps_kv,
            )
            for ask in asks
        )
        requests = queue_all(self._engine, submissions)
        for ask, request in zip(asks, requests, strict=True):
            self._tracer.follow(request, dict(http.headers), ask)
        return requests

    async def finish(self, request: Request) -> str:
        """Wait for the end of a request, and return its reason.

        Raises:
            ApiError: the engine died, or the request failed in it.
        """
        try:
            return await ended(self._engine, request)
        finally:
            self.end(request)

    def end(self, request: Request) -> None:
        """Record that a request has ended; abort it if its client has gone."""
        self._tracer.tell(request)
        self._engine.abort(request)

    async def stream_typed(
        self, http: web.Request, request: Request, writer: TypedWriter, failed: bytes
    ) -> web.StreamResponse:
        """Stream a request as events that have a type.

        Args:
            http: the client's request.
            request: what is generated.
            writer: writer of the events.
            failed: event if the engine died.
        """
        response = web.StreamResponse(headers={**EVENT_STREAM, **self.headers})
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
                await response.write(failed)
            else:
                reason = request.finished.value if request.finished else "abort"
                for each in writer.end(reason, request.generated, request.cached_tokens):
                    await response.write(each)
            await response.write_eof()
        finally:
            await results.aclose()
            self.end(request)
        return response

    async def _whole(self, requests: list[Request], answers: list[Answer]) -> Json:
        """Return the body of a response that is not streamed, once every choice is finished."""
        bodies: list[Json] = []
        try:
            for request, answer in zip(requests, answers, strict=True):
                reason = await self.finish(request)
                bodies.append(answer.whole(request.generated, reason, request.cached_tokens))
        finally:
            for request in requests[len(bodies) :]:
                self.end(request)
        whole = bodies[0]
        whole["choices"] = [choice for body in bodies for choice in body["choices"]]
        generated = sum(request.generated for request in requests)
        cached = requests[0].cached_tokens
        whole["usage"] = answers[0].usage(generated, cached, _prompt_tokens(answers))
        return whole

    async def _stream(
        self, http: web.Request, requests: list[Request], answers: list[Answer]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={**EVENT_STREAM, **self.headers})
        choices = [
            self._events(request, answer) for request, answer in zip(requests, answers, strict=True)
        ]
        ask = answers[0].ask
        try:
            await response.prepare(http)
            async for sent in choices[0] if len(choices) == 1 else interleaved(choices):
                await response.write(sent)
            if self._engine.dead:
                await _send(response, engine_dead().body())
            elif ask.usage_chunk or self._forces_usage:
                made = sum(request.generated for request in requests)
                last = answers[0].usage_event(
                    made, requests[0].cached_tokens, _prompt_tokens(answers)
                )
                await _send(response, last)
            await response.write(b"data: [DONE]\n\n")
            await response.write_eof()
        finally:
            for request, choice in zip(requests, choices, strict=True):
                await choice.aclose()
                self.end(request)
        return response

    async def _events(self, request: Request, answer: Answer) -> AsyncGenerator[bytes, None]:
        """Yield the events of one choice, until it is finished or the engine is dead."""
        results = self._engine.results(request)
        try:
            sent = 0
            details = answer.ask.details
            is_counting = answer.ask.continuous_usage or self._forces_usage
            plain = plain_chunk(answer) if details.logprobs is None and not is_counting else None
            async for generated in results:
                if self._engine.dead:
                    return
                if not sent:
                    for each in answer.beginning(is_counting=is_counting):
                        yield event(each)
                reason = request.finished.value if request.finished else None
                if reason is None and plain is not None and (sent or not details.echo):
                    yield plain("".join(answer.ask.output[sent:generated]))
                else:
                    usage = answer.usage_so_far(generated) if is_counting else None
                    yield event(answer.part(sent, generated, reason, usage))
                sent = generated
        finally:
            await results.aclose()


def _prompt_tokens(answers: list[Answer]) -> int:
    """Return the tokens of all prompts: the choices of one prompt have it in common."""
    return sum(len(prompt) for prompt in {id(a.ask.prompt): a.ask.prompt for a in answers}.values())


async def interleaved(sources: list[AsyncGenerator[bytes, None]]) -> AsyncGenerator[bytes, None]:
    """Yield the items of several generators as they arrive, in order within each source."""
    queue: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def drain(source: AsyncGenerator[bytes, None]) -> None:
        try:
            async for item in source:
                queue.put_nowait(item)
        finally:
            queue.put_nowait(None)

    tasks = [asyncio.ensure_future(drain(source)) for source in sources]
    try:
        left = len(tasks)
        while left:
            item = await queue.get()
            if item is None:
                left -= 1
            else:
                yield item
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _send(response: web.StreamResponse, body: Json) -> None:
    await response.write(event(body))


ASKED = "endpoint-load-metrics-format"
REPORT = "endpoint-load-metrics"


def load_report(http: web.Request, engine: Engine) -> dict[str, str]:
    """Return the header with KV cache utilization and queue, or nothing if it is not asked for."""
    kind = http.headers.get(ASKED, "").lower()
    scheduler = engine.scheduler
    values = {
        "kv_cache_usage_perc": float(scheduler.cache.usage),
        "num_requests_waiting": float(len(scheduler.waiting)),
    }
    if kind == "text":
        named = ", ".join(f"named_metrics.{name}={value}" for name, value in values.items())
        return {REPORT: f"TEXT {named}"}
    return {REPORT: f"JSON {json.dumps({'named_metrics': values})}"} if kind == "json" else {}
