"""Shared code of the other servers: a request through the engine, whole or streamed."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from aiohttp import web

from simulator.engine.engine import Engine
from simulator.engine.request import FinishReason, Request
from simulator.server.bodies import answers, asks, log_probabilities, messages, text
from simulator.server.bodies.errors import ApiError
from simulator.server.bodies.json_answers import json_response
from simulator.server.bodies.structured import Form
from simulator.server.generation import POD_HEADER, SPEED_HEADER, interleaved
from simulator.server.http_server import Handler, HttpServer


@dataclass(frozen=True)
class GenerationRequest:
    """A validated generation request, in the engine's terms."""

    model: str
    """Name of the responding model."""
    prompt: list[int]
    max_tokens: int
    output: list[str]
    """The chunks of the response."""
    stopped_by: str | None = None
    """Stop text that ends the response."""
    adapter: str | None = None
    salt: str = ""
    """Value that requests must have in common to share a prefix."""
    stream: bool = False
    priority: int = 0
    index: int = 0
    """Index of the choice, if the request asked for several."""
    form: Form | None = None
    """Required form of the response; None for text."""
    logprobs: int | None = None
    """Number of alternatives with their log probabilities for each token; None for no
    probabilities at all, 0 for those of the tokens alone."""

    @property
    def text(self) -> str:
        """The whole response."""
        return "".join(self.output)

    def likely(self, pieces: Sequence[str]) -> list[log_probabilities.Position]:
        """Return tokens of the response with their log probabilities."""
        said = [piece for piece in pieces if piece]
        return log_probabilities.positions(said, self.logprobs or 0)


_PLAIN: tuple[Any, ...] = (None, False, 0, [])


def check_simulated(body: asks.Json, names: Sequence[str] = ()) -> None:
    """Reject what the simulation does not support, instead of ignoring it.

    Args:
        body: body of the request.
        names: fields of the server that are not simulated.

    Raises:
        ApiError: 400 with the field.
    """
    for name in names:
        if body.get(name) not in _PLAIN:
            said = f"{name} is not available on a simulated engine."
            raise ApiError(400, said, param=name, kind="not simulated")
    kind = messages.media_of(body.get("messages"))
    if kind is not None:
        said = f"{kind} in messages is not available on a simulated engine."
        raise ApiError(400, said, param="messages", kind="not simulated")


def ask_of(
    model: str,
    prompt: list[int],
    most: int,
    stops: list[str],
    *,
    ignore_end: bool = False,
    choice: int = 0,
    form: Form | None = None,
    **more: Any,
) -> GenerationRequest:
    """Return a request with the response of a model.

    Args:
        model: name of the responding model.
        prompt: tokens of the prompt.
        most: maximum number of tokens in the response.
        stops: stop texts.
        ignore_end: whether to generate until `most`; a required form ends by itself.
        choice: index of the response among several to one prompt.
        form: required form of the response.
        more: additional fields.
    """
    if form is None:
        pieces = text.answer(model, prompt, most, ignore_end=ignore_end, choice=choice)
    else:
        pieces = text.pieces(form.text)[:most]
    pieces, stopped = text.until_stop(pieces, stops)
    return GenerationRequest(model, prompt, most, pieces, stopped, form=form, **more)


class Events(Protocol):
    """A writer of the events of one streamed response."""

    def opening(self) -> list[Any]:
        """Return the events before the first token."""
        ...

    def piece(self, pieces: Sequence[str], request: Request) -> list[Any]:
        """Return the events of more tokens, the last ones if the request is finished."""
        ...

    def closing(self, request: Request) -> list[Any]:
        """Return the events of the choice after the last token of every choice."""
        ...

    def ending(self, requests: Sequence[Request]) -> list[Any]:
        """Return the last events of the whole response, without the end marker."""
        ...


class DialectServer(HttpServer):
    """A server with its own dialect for an engine; it finishes open requests on shutdown."""

    def __init__(self, engine: Engine, port: int) -> None:
        super().__init__(engine, port, None)
        surroundings = engine.deployment.surroundings
        speed = getattr(engine.clock, "speed", 1.0)
        self._headers = {POD_HEADER: surroundings.pod} if surroundings.pod else {}
        if speed != 1:
            self._headers[SPEED_HEADER] = f"{speed:g}"
        self.app.add_routes(self.routes())

    def routes(self) -> list[web.RouteDef]:
        """Return the routes of the server."""
        raise NotImplementedError

    def failed(self, http: web.Request, error: ApiError) -> web.Response:
        """Return an error in the server's format."""
        raise NotImplementedError

    def dead(self) -> ApiError:
        """Return the response for open requests when the engine died."""
        raise NotImplementedError

    async def answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request, with errors in the server's format."""
        try:
            return await handler(request)
        except ApiError as error:
            return self.failed(request, error)
        except web.HTTPException as error:
            return self.unrouted(error)

    def unrouted(self, error: web.HTTPException) -> web.Response:
        """Return the response for an unknown path or method, in FastAPI's format."""
        return json_response({"detail": error.reason}, status=error.status)

    def submit(self, ask: GenerationRequest) -> Request:
        """Queue a request.

        Raises:
            ApiError: the engine is dead, or the server's queue is full.
        """
        if self._engine.dead:
            raise self.dead()
        return self._engine.submit(
            ask.prompt,
            [text.token(piece) for piece in ask.output],
            ask.max_tokens,
            adapter=ask.adapter,
            salt=ask.salt,
            priority=ask.priority,
            stream=ask.stream,
        )

    def submit_all(self, choices: Sequence[GenerationRequest]) -> list[Request]:
        """Queue the choices of a request, all of them or none.

        Raises:
            ApiError: as `submit`.
        """
        requests: list[Request] = []
        try:
            for ask in choices:
                requests.append(self.submit(ask))  # noqa: PERF401 - those before are aborted
        except ApiError:
            self._abort(requests)
            raise
        return requests

    def _abort(self, requests: Sequence[Request]) -> None:
        for request in requests:
            self._engine.abort(request)

    async def whole(self, choices: Sequence[GenerationRequest]) -> list[Request]:
        """Compute the choices of a response completely.

        Raises:
            ApiError: the engine is dead, or its queue is full.
        """
        requests = self.submit_all(choices)
        try:
            for request in requests:
                async for _ in self._engine.results(request):
                    pass
                if self._engine.dead or request.finished is FinishReason.ERROR:
                    raise self.dead()
        finally:
            self._abort(requests)  # the client may have gone
        return requests

    def json(self, body: Any, **headers: str) -> web.Response:
        """Return a response that is not streamed."""
        return json_response(body, headers={**self._headers, **headers})

    async def streamed(
        self, http: web.Request, choices: Sequence[tuple[GenerationRequest, Events]], **headers: str
    ) -> web.StreamResponse:
        """Stream a response while its choices are computed.

        Raises:
            ApiError: the engine is dead, or its queue is full.
        """
        requests = self.submit_all([ask for ask, _ in choices])
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", **self._headers, **headers}
        )
        parts = [
            self._parts(ask, events, request)
            for (ask, events), request in zip(choices, requests, strict=True)
        ]
        try:
            await response.prepare(http)
            async for sent in parts[0] if len(parts) == 1 else interleaved(parts):
                await response.write(sent)
            if self._engine.dead:
                await _send(response, [self.dead().body()])
            else:
                for (_, events), request in zip(choices, requests, strict=True):
                    await _send(response, events.closing(request))
                await _send(response, choices[0][1].ending(requests))
            await response.write(b"data: [DONE]\n\n")
            await response.write_eof()
        finally:
            for part in parts:
                await part.aclose()
            self._abort(requests)  # the client may have gone
        return response

    async def _parts(
        self, ask: GenerationRequest, events: Events, request: Request
    ) -> AsyncGenerator[bytes, None]:
        """Yield the events of one choice, until it is finished or the engine is dead."""
        results: AsyncGenerator[int] = self._engine.results(request)
        sent = 0
        try:
            for body in events.opening():
                yield answers.event(body)
            async for generated in results:
                if self._engine.dead:
                    return
                for body in events.piece(ask.output[sent:generated], request):
                    yield answers.event(body)
                sent = generated
        finally:
            await results.aclose()


async def _send(response: web.StreamResponse, bodies: list[Any]) -> None:
    for body in bodies:
        await response.write(answers.event(body))


def reason_of(request: Request) -> str:
    """Return the finish reason: `stop`, `length` or `abort`."""
    return (request.finished or FinishReason.ABORT).value
