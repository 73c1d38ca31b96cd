"""Shared code of the other servers: a request through the engine, whole or streamed."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Protocol

from aiohttp import web

from simulator.engine.engine import Engine
from simulator.engine.request import FinishReason, Request
from simulator.server.bodies import answers, asks, messages, text
from simulator.server.bodies.errors import ApiError
from simulator.server.generation import POD_HEADER, SPEED_HEADER
from simulator.server.http_server import Handler, HttpServer


@dataclass(frozen=True)
class Ask:
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
    stream: bool = False
    priority: int = 0

    @property
    def text(self) -> str:
        """The whole response."""
        return "".join(self.output)


_NOT_SIMULATED = (
    "best_of",
    "ebnf",
    "echo",
    "function_call",
    "json_schema",
    "logprobs",
    "regex",
    "response_format",
    "tools",
    "top_logprobs",
)
_PLAIN: tuple[Any, ...] = (None, False, 0, [], {"type": "text"})


def check_simulated(body: asks.Json) -> None:
    """Reject what the simulation does not support, instead of ignoring it.

    Raises:
        ApiError: 400 with the field.
    """
    for name in _NOT_SIMULATED:
        is_plain = body.get(name) in _PLAIN or (name == "best_of" and body[name] == 1)
        if not is_plain:
            said = f"{name} is not available on a simulated engine."
            raise ApiError(400, said, param=name, kind="not simulated")
    kind = messages.media_of(body.get("messages"))
    if kind is not None:
        said = f"{kind} in messages is not available on a simulated engine."
        raise ApiError(400, said, param="messages", kind="not simulated")
    if body.get("n") not in (None, 1):
        said = f"n must be 1 on a simulated engine, got {body['n']!r}."
        raise ApiError(400, said, param="n", kind="not simulated")


def ask_of(
    model: str, prompt: list[int], most: int, stops: list[str], *, ignore_end: bool, **more: Any
) -> Ask:
    """Return a request with the response of a model.

    Args:
        model: name of the responding model.
        prompt: tokens of the prompt.
        most: maximum number of tokens in the response.
        stops: stop texts.
        ignore_end: whether to generate until `most`.
        more: additional fields.
    """
    pieces = text.answer(model, prompt, most, ignore_end=ignore_end)
    pieces, stopped = text.until_stop(pieces, stops)
    return Ask(model, prompt, most, pieces, stopped, **more)


class Events(Protocol):
    """A writer of the events of one streamed response."""

    def opening(self) -> list[Any]:
        """Return the events before the first token."""
        ...

    def piece(self, part: str, request: Request) -> list[Any]:
        """Return the events of more text, which is the last if the request is finished."""
        ...

    def closing(self, request: Request) -> list[Any]:
        """Return the events after the last token, without the end marker."""
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
        return web.json_response({"detail": error.reason}, status=error.status)

    def submit(self, ask: Ask) -> Request:
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
            priority=ask.priority,
            stream=ask.stream,
        )

    async def whole(self, ask: Ask) -> Request:
        """Compute a response completely.

        Raises:
            ApiError: the engine is dead, or its queue is full.
        """
        request = self.submit(ask)
        async for _ in self._engine.results(request):
            pass
        if self._engine.dead or request.finished is FinishReason.ERROR:
            raise self.dead()
        return request

    def json(self, body: Any, **headers: str) -> web.Response:
        """Return a response that is not streamed."""
        return web.json_response(body, headers={**self._headers, **headers})

    async def streamed(
        self, http: web.Request, ask: Ask, events: Events, **headers: str
    ) -> web.StreamResponse:
        """Stream a response while it is computed.

        Raises:
            ApiError: the engine is dead, or its queue is full.
        """
        request = self.submit(ask)
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", **self._headers, **headers}
        )
        results: AsyncGenerator[int] = self._engine.results(request)
        sent = 0
        try:
            await response.prepare(http)
            await _send(response, events.opening())
            async for generated in results:
                if self._engine.dead:
                    await _send(response, [self.dead().body()])
                    break
                part = "".join(ask.output[sent:generated])
                sent = generated
                await _send(response, events.piece(part, request))
            if not self._engine.dead:
                await _send(response, events.closing(request))
            await response.write(b"data: [DONE]\n\n")
            await response.write_eof()
        finally:
            await results.aclose()
            self._engine.abort(request)  # the client may have gone
        return response


async def _send(response: web.StreamResponse, bodies: list[Any]) -> None:
    for body in bodies:
        await response.write(answers.event(body))


def reason_of(request: Request) -> str:
    """Return the finish reason: `stop`, `length` or `abort`."""
    return (request.finished or FinishReason.ABORT).value
