"""A server with configurable correct and faulty responses."""

import json
import socketserver
import threading
import time
from typing import Any

import pytest

EVENT = b'data: {"choices":[{"index":0,"text":"%s","finish_reason":%s}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}\n\n'
GOOD = [
    EVENT % (b"a", b"null"),
    EVENT % (b"bc", b"null"),
    EVENT % (b"", b'"length"'),
    USAGE,
    b"data: [DONE]\n\n",
]


def head(status=200, kind="text/event-stream", extra=""):
    return (
        f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\n{extra}Transfer-Encoding: chunked\r\n\r\n"
    ).encode()


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def whole(status, body, extra=""):
    return (
        f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{extra}"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    ).encode()


ERROR = b'data: {"error":{"message":"broke","code":500}}\n\n'
END = b"0\r\n\r\n"


def stream(*events, end=END, extra=""):
    return [head(extra=extra), *map(chunk, events), end]


CHOICE = {"text": "abc", "finish_reason": "length"}
GOOD_BODY = {"choices": [CHOICE], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}
ANSWERS = {
    "good": stream(*GOOD, extra="x-gke-inference-pod: pod-1\r\n"),
    "slow-first": stream(*GOOD),
    "split": stream(*(bytes([byte]) for byte in b"".join(GOOD))),
    "whole": [whole(200, json.dumps(GOOD_BODY))],
    "whole-without-reason": [whole(200, json.dumps({"choices": [{"text": "abc"}]}))],
    "html": [whole(200, "<html>")],
    "empty-503": [b"HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n"],
    "error-event": stream(GOOD[0], ERROR, GOOD[-1]),
    "no-done": stream(*GOOD[:-1]),
    "no-finish": stream(GOOD[0], GOOD[-1]),
    "half-event": stream(GOOD[0], GOOD[1][:20]),
    "garbage": stream(b"data: nonsense\n\n"),
    "cut-stream": stream(GOOD[0], end=b""),
    "cut-error": [b"HTTP/1.1 500 X\r\nContent-Length: 100\r\n\r\n{"],
    "cut-at-once": [],
    "silent": [],
    **{
        str(status): [whole(status, '{"error":{"message":"no"}}', "Retry-After: 1\r\n")]
        for status in (400, 404, 429, 500, 503, 504)
    },
}
BEFORE = {"slow-first": 0.5, "silent": 2.0}


class Handler(socketserver.StreamRequestHandler):
    """A handler with its own HTTP code, because libraries do not cut off their responses."""

    def handle(self):
        while True:
            lines = []
            while (line := self.rfile.readline().decode().lower()).strip():
                lines.append(line)
            if not lines:
                return
            size = next(int(x.split(":")[1]) for x in lines if x.startswith("content-length"))
            body = json.loads(self.rfile.read(size))
            server_of(self).bodies.append(body)
            server_of(self).headers.append("".join(lines))
            server_of(self).sources.append(self.client_address[0])
            time.sleep(BEFORE.get(body["model"], 0))
            for part in ANSWERS[body["model"]]:
                self.wfile.write(part)
                self.wfile.flush()
                time.sleep(0.001 if body["model"] == "good" else 0)
            if body["model"].startswith("cut") or body["model"] == "silent":
                return


class Server(socketserver.ThreadingTCPServer):
    """The server, and what it was sent."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.bodies = []
        self.headers = []
        self.sources = []

    def handle_error(self, request, client_address):
        """A client that disconnected is not an error."""


@pytest.fixture(scope="module")
def server():
    with Server() as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.05,))
        thread.start()
        yield found
        found.shutdown()
        thread.join(timeout=10)


def server_of(handler) -> Any:
    return handler.server
