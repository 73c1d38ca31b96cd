"""Requests to a Cloud Run service of the twin, passed to its instance."""

import contextlib
import http.client
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from twin.world.run_services import Place

Headers = list[tuple[str, str]]

MOST_BYTES: Final = 32 * 2**20
"""Maximum size of a request over HTTP/1 (docs.cloud.google.com/run/quotas, 2026-11-24)."""
_OF_THE_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers of one connection (RFC 9110, section 7.6.1)."""
_OF_THE_FRONT: Final = frozenset({"content-length", "date", "server"})
_PIECE: Final = 65_536
_STREAM: Final = "text/event-stream"
_WITH_BODY: Final = frozenset({"PATCH", "POST", "PUT"})


@dataclass(frozen=True)
class Answer:
    """An answer of Cloud Run, or of the service."""

    status: int
    content: bytes
    headers: Headers = field(default_factory=lambda: [("Content-Type", "text/plain")])
    size: str | None = None
    """Content-Length of the service's answer to a HEAD request."""
    pieces: Iterator[bytes] | None = None
    """Rest of a stream of events, as it arrives; `content` is then empty."""


def answer(
    place: Place,
    method: str,
    path: str,
    headers: Headers,
    body: bytes,
    *,
    may_stream: bool = False,
) -> Answer:
    """Return the answer of an instance; 504 after the service's time limit.

    With `may_stream`, a stream of events is passed on as it arrives.
    """
    if len(body) > MOST_BYTES:
        return Answer(413, b"Request Entity Too Large")
    connection = http.client.HTTPConnection(
        place.host, place.port, timeout=max(1.0, place.timeout_seconds)
    )
    streams = False
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in _kept(headers, {"content-length"}):
            connection.putheader(name, value)
        if body or method in _WITH_BODY:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body or None)
        response = connection.getresponse()
        if may_stream and _STREAM in (response.headers.get("Content-Type") or ""):
            streams = True
            kept = _kept(response.getheaders(), _OF_THE_FRONT)
            return Answer(response.status, b"", kept, pieces=_pieces(connection, response))
        content, found = response.read(), response.getheaders()
        size = response.headers.get("Content-Length") if method == "HEAD" else None
        return Answer(response.status, content, _kept(found, _OF_THE_FRONT), size)
    except TimeoutError:
        return Answer(504, b"upstream request timeout")
    except (OSError, ValueError, http.client.HTTPException):
        return Answer(503, b"Service Unavailable")
    finally:
        if not streams:
            connection.close()


def _pieces(
    connection: http.client.HTTPConnection, response: http.client.HTTPResponse
) -> Iterator[bytes]:
    """Yield the parts of a stream, which ends early if the instance does."""
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        while piece := response.read1(_PIECE):
            yield piece


def _kept(headers: Headers, others: Iterable[str]) -> Headers:
    """Return the headers that a proxy passes on, without some others."""
    listed = ",".join(value for name, value in headers if name.lower() == "connection")
    dropped = {*_OF_THE_HOP, *others, *(each.strip().lower() for each in listed.split(","))}
    return [(name, value) for name, value in headers if name.lower() not in dropped]
