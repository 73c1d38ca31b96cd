"""What the small HTTP servers of the twin have in common."""

import logging
from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar, Final

JSON: Final = "application/json; charset=UTF-8"
"""Content type of the answers of Google's APIs."""
_LOG = logging.getLogger(__name__)


class Answers(BaseHTTPRequestHandler):
    """A handler that keeps connections open and does not log requests to standard error."""

    protocol_version = "HTTP/1.1"
    timeout: ClassVar[float | None] = 60
    """Idle timeout of a connection, in seconds."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        """Log at debug level."""
        _LOG.debug(format, *args)

    def reply(self, code: int, content_type: str, data: bytes) -> None:
        """Send a complete response."""
        self.send_response(code)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
