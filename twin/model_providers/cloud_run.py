"""Requests to a Cloud Run service of the twin, passed to its instance."""

import http.client
from collections.abc import Iterable
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
_WITH_BODY: Final = frozenset({"PATCH", "POST", "PUT"})


@dataclass(frozen=True)
class Answer:
    """An answer of Cloud Run, or of the service."""

    status: int
    content: bytes
    headers: Headers = field(default_factory=lambda: [("Content-Type", "text/plain")])
    size: str | None = None
    """Content-Length of the service's answer to a HEAD request."""


def answer(place: Place, method: str, path: str, headers: Headers, body: bytes) -> Answer:
    """Return the answer of an instance; 504 after the service's time limit."""
    if len(body) > MOST_BYTES:
        return Answer(413, b"Request Entity Too Large")
    connection = http.client.HTTPConnection(
        place.host, place.port, timeout=max(1.0, place.timeout_seconds)
    )
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in _kept(headers, {"content-length"}):
            connection.putheader(name, value)
        if body or method in _WITH_BODY:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body or None)
        response = connection.getresponse()
        content, found = response.read(), response.getheaders()
        size = response.headers.get("Content-Length") if method == "HEAD" else None
        return Answer(response.status, content, _kept(found, _OF_THE_FRONT), size)
    except TimeoutError:
        return Answer(504, b"upstream request timeout")
    except (OSError, ValueError, http.client.HTTPException):
        return Answer(503, b"Service Unavailable")
    finally:
        connection.close()


def _kept(headers: Headers, others: Iterable[str]) -> Headers:
    """Return the headers that a proxy passes on, without some others."""
    listed = ",".join(value for name, value in headers if name.lower() == "connection")
    dropped = {*_OF_THE_HOP, *others, *(each.strip().lower() for each in listed.split(","))}
    return [(name, value) for name, value in headers if name.lower() not in dropped]
