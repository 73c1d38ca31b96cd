"""Programs that extensions call, for tests: Envoy's external processing protocol over gRPC."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from twin.wire.ext_proc import Request, Response, event_of


def headers_of(request: Any) -> dict[str, str]:
    """Return the headers of a message."""
    found = getattr(request, event_of(request)).headers.headers
    return {entry.key: entry.raw_value.decode() for entry in found}


def metadata_of(request: Any) -> dict[str, dict[str, Any]]:
    """Return the metadata of a message by namespace."""
    return {e.key: dict(e.value) for e in request.metadata_context.filter_metadata}


def _mutation(mutation: Any, headers: dict[str, str], remove: tuple[str, ...] = ()) -> None:
    for key, value in headers.items():
        option = mutation.set_headers.add(append_action=2)
        option.header.key, option.header.raw_value = key, value.encode()
    mutation.remove_headers.extend(remove)


def go_on(
    event: str,
    headers: dict[str, str] | None = None,
    *,
    clear_route: bool = False,
    remove: tuple[str, ...] = (),
) -> Any:
    """Return the answer to headers or trailers, with the headers that it sets and removes."""
    answer = Response()
    part = getattr(answer, event)
    if event.endswith("trailers"):
        part.SetInParent()
        return answer
    part.response.SetInParent()
    if headers:
        _mutation(part.response.header_mutation, headers)
    part.response.header_mutation.remove_headers.extend(remove)
    if clear_route:
        part.response.clear_route_cache = True
    return answer


def send_body(event: str, body: bytes, *, end: bool = False) -> Any:
    """Return a piece of a full-duplex body."""
    answer = Response()
    piece = getattr(answer, event).response.body_mutation.streamed_response
    piece.body, piece.end_of_stream = body, end
    return answer


def replace_body(event: str, body: bytes) -> Any:
    """Return the answer to a piece of a streamed body that replaces it."""
    answer = Response()
    getattr(answer, event).response.body_mutation.body = body
    return answer


def refuse(code: int, body: str, headers: dict[str, str] | None = None) -> Any:
    """Return an answer to the client that ends the request."""
    answer = Response()
    answer.immediate_response.status.code = code
    answer.immediate_response.body = body.encode()
    _mutation(answer.immediate_response.headers, headers or {})
    return answer


Answers = Callable[[Any, dict[str, Any]], list[Any]]
"""Answers to a message, given what a program remembers of the request."""


def pass_on(request: Any, _: dict[str, Any]) -> list[Any]:
    """Answer a message without a change."""
    event = event_of(request)
    if not event.endswith("body"):
        return [go_on(event)]
    part = getattr(request, event)
    return [send_body(event, part.body, end=part.end_of_stream)]


class Processor:
    """A program that extensions call, with the messages that it received."""

    def __init__(self, name: str, address: str, port: int, log: list[str] | None = None) -> None:
        self.name, self.address, self.port = name, address, port
        self.seen: list[Any] = []
        self.authorities: list[str] = []
        self.answers: Answers = pass_on
        self.delay_seconds = 0.0
        self._log = log if log is not None else []
        self._server = grpc.server(ThreadPoolExecutor(16))
        handler = grpc.method_handlers_generic_handler(
            "envoy.service.ext_proc.v3.ExternalProcessor",
            {
                "Process": grpc.stream_stream_rpc_method_handler(
                    self._process,
                    request_deserializer=Request.FromString,
                    response_serializer=Response.SerializeToString,
                )
            },
        )
        self._server.add_generic_rpc_handlers((handler,))
        self._server.add_insecure_port(f"{address}:{port}")
        self._server.start()

    def _process(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:
        memory: dict[str, Any] = {}
        for request in requests:
            self.seen.append(request)
            self._log.append(f"{self.name} {event_of(request)}")
            time.sleep(self.delay_seconds)
            yield from self.answers(request, memory)

    def events(self) -> list[str]:
        """Return the events it was sent, each once, in order."""
        return list(dict.fromkeys(event_of(request) for request in self.seen))

    def first(self, event: str) -> Any:
        """Return the first message about an event."""
        return next(request for request in self.seen if event_of(request) == event)

    def forget(self) -> None:
        """Start over: nothing seen, every message passed on at once."""
        self.seen.clear()
        self.answers, self.delay_seconds = pass_on, 0.0

    def stop(self) -> None:
        """End it."""
        self._server.stop(0).wait()
