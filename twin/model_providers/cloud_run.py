"""Requests to a Cloud Run service of the twin, passed to its instance."""

import http.client
from dataclasses import dataclass
from typing import Final

from twin.world.run_services import Place

_MOST_BYTES: Final = 32 * 2**20
"""Maximum size of a request over HTTP/1 (docs.cloud.google.com/run/quotas, 2026-11-24)."""
_OF_THE_HOP: Final = frozenset({"connection", "content-length", "keep-alive", "transfer-encoding"})


@dataclass(frozen=True)
class Answer:
    """An answer of Cloud Run, or of the service."""

    status: int
    content: bytes
    kind: str = "text/plain"


def answer(place: Place, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
    """Return the answer of an instance; 504 after the service's time limit."""
    if int(headers.get("content-length") or 0) > _MOST_BYTES:
        return Answer(413, b"Request Entity Too Large")
    kept = {name: value for name, value in headers.items() if name not in _OF_THE_HOP}
    connection = http.client.HTTPConnection(
        place.host, place.port, timeout=max(1.0, place.timeout_seconds)
    )
    try:
        connection.request(method, path, body=body or None, headers=kept)
        response = connection.getresponse()
        kind = response.headers.get("Content-Type", "application/octet-stream")
        return Answer(response.status, response.read(), kind)
    except TimeoutError:
        return Answer(504, b"upstream request timeout")
    except (OSError, http.client.HTTPException):
        return Answer(503, b"Service Unavailable")
    finally:
        connection.close()
