"""A server on 127.0.0.1 that answers like the few Google APIs that the commands read.

The first part of a path is the host that was meant. It remembers every call.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PROJECT = "acme-inference-prod"
NUMBER = "141421356237"

Json = dict[str, Any]
Answer = tuple[int, Json]


class FakeGoogle:
    """What a project has, and what was asked of it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.services = {
            "iam.googleapis.com",
            "serviceusage.googleapis.com",
            "storage.googleapis.com",
        }
        self.resources: dict[str, Json] = {}
        self.refusals: dict[str, Answer] = {}
        """Answers by the start of a path, in place of the usual ones."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> str:
        """Where it listens, such as http://127.0.0.1:1234."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, method: str, path: str, query: dict[str, str], body: Json) -> Answer:
        """Return the status and the body of the answer to one call."""
        del query, body  # a test that answers by them replaces this method
        self.calls.append((method, path))
        for start, refusal in self.refusals.items():
            if path.startswith(start):
                return refusal
        host, _, rest = path.partition("/")
        if host not in self.services:
            return refused(403, f"{host} has not been used", "SERVICE_DISABLED")
        if host == "serviceusage.googleapis.com":
            return 200, {"name": f"projects/{NUMBER}/services/{rest.rsplit('/', 1)[1]}"}
        name = path.removesuffix(":undelete")
        if name not in self.resources:
            return refused(404, "not found", "NOT_FOUND")
        if name != path:
            self.resources[name]["state"] = "ACTIVE"
        return 200, self.resources[name]


def refused(status: int, message: str, reason: str = "") -> Answer:
    """Return an answer as Google refuses."""
    return status, {"error": {"message": message, "details": [{"reason": reason}]}}


def _handler(google: FakeGoogle) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # a connection for many calls
        disable_nagle_algorithm = True

        def _any(self) -> None:
            url = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(url.query).items()}
            length = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(length) or b"{}")
            status, answer = google.answer(self.command, url.path.lstrip("/"), query, body)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_DELETE = do_GET = do_PATCH = do_POST = _any

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the base
            """Say nothing."""

    return Handler
