"""One HTTP server for all providers; the host that a relay calls selects the dialect.

`python -m twin.model_providers.server ROOT PORT` serves a twin, whose cloud has the IAM grants. The
server is also GKE's metadata server and the API for ID tokens, which relays call for credentials.
It passes requests to the Cloud Run services of the twin that run as processes.
"""

import http.server
import json
import re
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from io import BufferedIOBase
from pathlib import Path
from typing import Any, Final

from twin.host.loopback_server import LoopbackServer, served_by
from twin.host.own_callers import OwnHttpServer
from twin.host.paths import TwinPaths
from twin.model_providers import cloud_run
from twin.model_providers.dialects import (
    ACCESS_TOKEN,
    Grants,
    error_of,
    id_token,
    refusal_of,
    run_refusal,
)
from twin.model_providers.grants import grants_of
from twin.model_providers.run_instances import RunError, RunInstances
from twin.world.run_models import RunModel
from twin.world.run_services import Place, place_at
from twin.world.store import Store

NAME: Final = "model-providers"
_LOOPBACK: Final = "127.0.0.1"
_SERVER: Final = LoopbackServer(NAME, served_by("twin.model_providers.server"))
_LONGEST_LINE: Final = 65_536
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\n]*)?\r?\n")
_WITHOUT_BODY: Final = (204, 304)
_MOST_BYTES: Final = 64 << 20
_BYTES_PER_TOKEN: Final = 7  # not a relay's guess, so that a guess cannot pass for a count
_TOKEN_PATH: Final = "/computeMetadata/v1/instance/service-accounts/default/token"  # noqa: S105


class Providers:
    """Shared state of all requests; tests read the requests and inject failures."""

    def __init__(
        self, grants: Grants, place_at: Callable[[str], Place | None] = lambda _: None
    ) -> None:
        self.grants = grants
        self.place_at = place_at
        """Returns where the Cloud Run service of a host runs."""
        self.requests: list[tuple[str, str, dict[str, str], dict[str, Any]]] = []
        """Host, path, headers and body of each request for tokens."""
        self.faults: dict[str, list[int]] = {}
        """Statuses of the next responses, by host."""
        self.instances: RunInstances | None = None
        """Instances of models on Cloud Run; None without a twin."""
        self.event_seconds = 0.0
        """Time between the events of a stream."""
        self.pause = threading.Event()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    providers: Providers

    def do_GET(self) -> None:
        """Answer as a service on Cloud Run, or as the metadata server."""
        body = self._body()
        if body is None or self._passed(body):
            return
        if self.path.partition("?")[0] == _TOKEN_PATH and self.headers.get("Metadata-Flavor"):
            found = {"access_token": ACCESS_TOKEN, "expires_in": 3599, "token_type": "Bearer"}
            self._send(200, json.dumps(found).encode(), flavor=True)
            return
        self._send(404, b"")

    def do_POST(self) -> None:
        """Answer as a provider, or as the API of tokens."""
        body = self._body()
        if body is None or self._passed(body):
            return
        host, token = self._host(), self._token()
        try:
            asked: dict[str, Any] = json.loads(body)
        except ValueError:
            asked = {}
        if self.path.endswith(":generateIdToken"):
            self._make_token(token, asked)
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.providers.requests.append((host, self.path, headers, asked))
        model = str(asked.get("model"))
        refusal = refusal_of(host, self.path, token, model, self.providers.grants)
        if faults := self.providers.faults.get(host):
            refusal = error_of(host, faults.pop(0), "as the test wants it")
        if refusal is not None:
            self._send(refusal.status, refusal.content, refusal.content_type)
            return
        used = _usage(body, asked)
        if asked.get("stream"):
            self._stream(host, asked, used)
            return
        self._send(200, json.dumps(_whole(host, asked, used)).encode())

    def do_PUT(self) -> None:
        """Answer as a service on Cloud Run."""
        body = self._body()
        if body is not None and not self._passed(body):
            self._send(404, b"")

    do_DELETE = do_HEAD = do_OPTIONS = do_PATCH = do_PUT

    def _body(self) -> bytes | None:
        """Return a request's body, at most what no host takes; None if 400 was the answer."""
        try:
            if "chunked" in (self.headers.get("Transfer-Encoding") or "").lower():
                body, is_whole = chunks(self.rfile, _MOST_BYTES)
            else:
                size = int(self.headers.get("Content-Length") or 0)
                if size < 0:
                    raise ValueError("Content-Length")
                body, is_whole = self.rfile.read(min(size, _MOST_BYTES)), size <= _MOST_BYTES
        except ValueError:
            self.close_connection = True
            self._send(400, b"Bad Request", "text/plain")
            return None
        self.close_connection = self.close_connection or not is_whole
        return body

    def _host(self) -> str:
        return (self.headers.get("Host") or "").partition(":")[0]

    def _token(self) -> str:
        return (self.headers.get("Authorization") or "").removeprefix("Bearer ")

    def _passed(self, body: bytes) -> bool:
        """Let a service on Cloud Run answer; False if the host is none of the twin."""
        place, model = self.providers.place_at(self._host()), self._model()
        if place is None and model is None:
            return False
        refusal = run_refusal(self._host(), self._token(), self.providers.grants)
        if refusal is not None:
            self._send(refusal.status, refusal.content, refusal.content_type)
            return True
        if place is not None:
            self._pass_on(place, body)
        elif model is not None and self.providers.instances is not None:
            try:
                with self.providers.instances.taken(model) as taken:
                    self._pass_on(taken, body, may_stream=True)
            except RunError as error:
                self._send(error.status, error.text.encode(), "text/plain")
        return True

    def _model(self) -> RunModel | None:
        """Return the model on Cloud Run of the host that was called."""
        instances = self.providers.instances
        return None if instances is None else instances.model_at(self._host())

    def _pass_on(self, place: Place, body: bytes, *, may_stream: bool = False) -> None:
        """Let an instance answer."""
        headers = self.headers.items()
        answer = cloud_run.answer(
            place, self.command, self.path, headers, body, may_stream=may_stream
        )
        self.send_response(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        if answer.pieces is None:
            self._end(answer.status, answer.content, answer.size)
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in answer.pieces:
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def _make_token(self, token: str, asked: dict[str, Any]) -> None:
        account = self.path.rpartition("/")[2].removesuffix(":generateIdToken")
        if token != ACCESS_TOKEN or not self.providers.grants.may_make_tokens(account):
            denied = "Permission 'iam.serviceAccounts.getOpenIdToken' denied on resource"
            error = {"code": 403, "message": denied, "status": "PERMISSION_DENIED"}
            self._send(403, json.dumps({"error": error}).encode())
            return
        made = {"token": id_token(str(asked.get("audience")), account)}
        self._send(200, json.dumps(made).encode())

    def _stream(self, host: str, asked: dict[str, Any], used: dict[str, int]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Set-Cookie", "provider=1")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in _events(host, asked, used):
            data = f"data: {event}\n\n".encode()
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()
            if self.providers.event_seconds:
                self.providers.pause.wait(self.providers.event_seconds)
        self.wfile.write(b"0\r\n\r\n")

    def _send(
        self, status: int, content: bytes, kind: str = "application/json", *, flavor: bool = False
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if flavor:
            self.send_header("Metadata-Flavor", "Google")
        self._end(status, content)

    def _end(self, status: int, content: bytes, size: str | None = None) -> None:
        has_body = self.command != "HEAD" and status not in _WITHOUT_BODY
        if size is not None or has_body:
            self.send_header("Content-Length", size or str(len(content)))
        self.end_headers()
        if has_body:
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        """Log nothing, because requests contain credentials."""
        del format, args


def chunks(file: BufferedIOBase, most: int) -> tuple[bytes, bool]:
    """Return a chunked body (RFC 9112, section 7.1), and whether it ended within a size.

    Raises:
        ValueError: It is not one.
    """
    body = bytearray()
    while True:
        line = file.readline(_LONGEST_LINE)
        if (found := _CHUNK.fullmatch(line)) is None:
            raise ValueError("chunk")
        size = int(found[1], 16)
        if size == 0:
            break
        if len(body) + size > most:
            return bytes(body) + file.read(most - len(body)), False
        body += (piece := file.read(size))
        if len(piece) < size or file.readline(_LONGEST_LINE) not in (b"\r\n", b"\n"):
            raise ValueError("chunk")
    while (line := file.readline(_LONGEST_LINE)) not in (b"\r\n", b"\n"):
        if not line.endswith(b"\n"):
            raise ValueError("trailer")
    return bytes(body), True


def _usage(body: bytes, asked: dict[str, Any]) -> dict[str, int]:
    limit = asked.get("max_completion_tokens") or asked.get("max_tokens") or 8
    prompt, completion = len(body) // _BYTES_PER_TOKEN, min(int(limit), 8)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


def _text(host: str, count: int) -> list[str]:
    return [f"{host} ", *["word "] * (count - 1)]


def _whole(host: str, asked: dict[str, Any], used: dict[str, int]) -> dict[str, Any]:
    text = "".join(_text(host, used["completion_tokens"]))
    choice: dict[str, Any] = {"index": 0, "finish_reason": "length"}
    choice["message"] = {"role": "assistant", "content": text}
    return {
        "id": "chatcmpl-model-provider",
        "object": "chat.completion",
        "created": 1,
        "model": asked.get("model"),
        "choices": [choice],
        "usage": used,
    }


def _events(host: str, asked: dict[str, Any], used: dict[str, int]) -> Iterator[str]:
    head = {
        "id": "chatcmpl-model-provider",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": asked.get("model"),
    }
    for word in _text(host, used["completion_tokens"]):
        choice = {"index": 0, "delta": {"content": word}, "finish_reason": None}
        yield json.dumps({**head, "choices": [choice]})
    if (asked.get("stream_options") or {}).get("include_usage"):
        yield json.dumps({**head, "choices": [], "usage": used})
    yield "[DONE]"


def serve(providers: Providers, port: int) -> OwnHttpServer:
    """Return a listening server."""
    handler = type("Handler", (_Handler,), {"providers": providers})
    return OwnHttpServer((_LOOPBACK, port), handler, pages=True)


def address(paths: TwinPaths) -> str:
    """Return `HOST:PORT` of a twin's server, after starting it if needed.

    Raises:
        processes.ProcessError: The server did not start.
    """
    return _SERVER.address(paths)


def repair(paths: TwinPaths) -> None:
    """Restart the server on its port if it ran before and ended."""
    _SERVER.repair(paths)


if __name__ == "__main__":
    _paths = TwinPaths(Path(sys.argv[1]))
    _store = Store(_paths.cloud_db)
    _providers = Providers(grants_of(_store), partial(place_at, _store))
    _providers.instances = RunInstances(_paths)
    _check = threading.Thread(target=_providers.instances.run, args=(threading.Event(),))
    _check.daemon = True
    _check.start()
    serve(_providers, int(sys.argv[2])).serve_forever()
