"""What the other servers have in common: a request through the engine, whole or streamed."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Protocol

from aiohttp import web

from simulator.engine.engine import Engine
from simulator.engine.request import FinishReason, Request
from simulator.server import messages, protocol, text
from simulator.server.errors import ApiError
from simulator.server.generation import POD_HEADER, SPEED_HEADER
from simulator.server.http_server import Handler, HttpServer


@dataclass(frozen=True)
class Ask:
    """A generation request, checked, in the engine's terms."""

    model: str
    """Name that answers."""
    prompt: list[int]
    max_tokens: int
    output: list[str]
    """The pieces of the answer."""
    stopped_by: str | None = None
    """Stop text that ends it."""
    adapter: str | None = None
    stream: bool = False
    priority: int = 0

    @property
    def text(self) -> str:
        """The whole answer."""
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


def check_simulated(body: protocol.Json) -> None:
    """Turn away what the simulation does not do, in words rather than by ignoring it.

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
    """Return a request with the answer that a model of that name gives.

    Args:
        model: name that answers.
        prompt: its tokens.
        most: tokens of the answer, at most.
        stops: texts that end it.
        ignore_end: whether it goes on until `most`.
        more: further fields.
    """
    pieces = text.answer(model, prompt, most, ignore_end=ignore_end)
    pieces, stopped = text.until_stop(pieces, stops)
    return Ask(model, prompt, most, pieces, stopped, **more)


class Events(Protocol):
    """Writes the events of one streamed answer."""

    def opening(self) -> list[Any]:
        """Return the events before the first token."""
        ...

    def piece(self, part: str, request: Request) -> list[Any]:
        """Return the events of some more text, the last of it where the request is finished."""
        ...

    def closing(self, request: Request) -> list[Any]:
        """Return the events after the last token, without the mark of the end."""
        ...


class DialectServer(HttpServer):
    """A server with words of its own in front of an engine; what is open finishes at its end."""

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
        """Return an error in the server's words."""
        raise NotImplementedError

    def dead(self) -> ApiError:
        """Return the answer for what it had when its engine died."""
        raise NotImplementedError

    async def answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request, errors in the server's own words."""
        try:
            return await handler(request)
        except ApiError as error:
            return self.failed(request, error)
        except web.HTTPException as error:
            return self.unrouted(error)

    def unrouted(self, error: web.HTTPException) -> web.Response:
        """Return the answer for a path or a method that is not there, in FastAPI's words."""
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
        """Compute an answer to its end.

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
        """Return an answer that is not streamed."""
        return web.json_response(body, headers={**self._headers, **headers})

    async def streamed(
        self, http: web.Request, ask: Ask, events: Events, **headers: str
    ) -> web.StreamResponse:
        """Send an answer as it is computed.

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
            await results.aclose()  # the client may have gone: the request is aborted
        return response


async def _send(response: web.StreamResponse, bodies: list[Any]) -> None:
    for body in bodies:
        await response.write(protocol.event(body))


def reason_of(request: Request) -> str:
    """Return why an answer ended: `stop`, `length` or `abort`."""
    return (request.finished or FinishReason.ABORT).value
