"""The stand-in for Model Armor as a process: Envoy's external processing, and its REST methods.

`python -m twin.providers.gcp.armor.server ROOT GRPC_PORT HTTP_PORT` serves; `endpoint` starts it on
first use. It is stateless: templates are those of the twin's cloud, and no text is stored.
"""

import json
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import grpc

from twin.host.loopback_server import LoopbackServer, served_by
from twin.host.own_callers import OwnHttpServer
from twin.host.paths import TwinPaths
from twin.providers.gcp.armor import verdicts
from twin.providers.gcp.armor.exchange import Exchange
from twin.wire import ext_proc
from twin.wire.http_answers import JSON, Answers
from twin.wire.property_values import CloudError, Json
from twin.world.store import Store

NAME: Final = "model-armor"
_LOOPBACK: Final = "127.0.0.1"
_SERVER: Final = LoopbackServer(NAME, served_by("twin.providers.gcp.armor.server"), count=2)
_STREAMS: Final = 64
_METHOD: Final = re.compile(
    r"/v1/(projects/[^/:]+/locations/[^/:]+/templates/[^/:]+)"
    r":(sanitizeUserPrompt|sanitizeModelResponse)"
)
_DATA: Final = {
    "sanitizeUserPrompt": "userPromptData",
    "sanitizeModelResponse": "modelResponseData",
}
_CODES: Final = {
    "INVALID_ARGUMENT": grpc.StatusCode.INVALID_ARGUMENT,
    "NOT_FOUND": grpc.StatusCode.NOT_FOUND,
    "PERMISSION_DENIED": grpc.StatusCode.PERMISSION_DENIED,
}


def endpoint(paths: TwinPaths) -> tuple[str, int]:
    """Return its address for load balancers, after starting it if needed.

    Raises:
        processes.ProcessError: the server did not start.
    """
    return _LOOPBACK, _SERVER.ensure(paths)[0]


def rest_url(paths: TwinPaths) -> str:
    """Return the URL of its REST methods, after starting it if needed."""
    return f"http://{_LOOPBACK}:{_SERVER.ensure(paths)[1]}"


def repair(paths: TwinPaths) -> None:
    """Restart it on its ports if it ran before and ended."""
    _SERVER.repair(paths)


def answer(store: Store, path: str, body: bytes) -> tuple[int, Json]:
    """Return status and body of the response to a REST call."""
    match = _METHOD.fullmatch(path.partition("?")[0])
    try:
        if match is None:
            raise CloudError(404, f"The requested URL {path} was not found.", "NOT_FOUND")
        template, method = verdicts.template_of(store, match[1]), match[2]
        text = _text(body, _DATA[method])
        is_prompt = method == "sanitizeUserPrompt"
        return 200, {"sanitizationResult": verdicts.sanitize(template, text, is_prompt=is_prompt)}
    except CloudError as error:
        told = {"code": error.status, "message": error.message, "status": error.reason}
        return error.status, {"error": told}


def _text(body: bytes, field: str) -> str:
    try:
        text: Any = json.loads(body)[field]["text"]
    except (ValueError, KeyError, TypeError):
        text = None
    if not isinstance(text, str):
        raise CloudError(400, f"{field}.text: must be a text", "INVALID_ARGUMENT")
    return text


class _Handler(Answers):
    store: Store

    def do_POST(self) -> None:
        """Answer a call."""
        size = int(self.headers.get("Content-Length") or 0)
        status, found = answer(self.store, self.path, self.rfile.read(size))
        self.reply(status, JSON, json.dumps(found).encode())


class Callout:
    """The gRPC service that load balancers call."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def process(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:
        """Answer the messages of one request."""
        exchange = Exchange(self._store)
        for request in requests:
            try:
                yield from exchange.answers(request)
            except CloudError as error:
                code = _CODES.get(error.reason, grpc.StatusCode.INTERNAL)
                context.abort(code, error.message)


def serve(paths: TwinPaths, grpc_port: int) -> Any:
    """Return the started gRPC server."""
    callout = Callout(Store(paths.cloud_db))
    server = grpc.server(ThreadPoolExecutor(_STREAMS))
    handler = grpc.stream_stream_rpc_method_handler(
        callout.process,
        request_deserializer=ext_proc.Request.FromString,
        response_serializer=ext_proc.Response.SerializeToString,
    )
    handlers = grpc.method_handlers_generic_handler(ext_proc.SERVICE, {"Process": handler})
    server.add_generic_rpc_handlers((handlers,))
    server.add_insecure_port(f"{_LOOPBACK}:{grpc_port}")
    server.start()
    return server


def main(root: Path, grpc_port: int, http_port: int) -> None:
    """Serve both until the process ends."""
    paths = TwinPaths(root)
    running = serve(paths, grpc_port)
    handler = type("Handler", (_Handler,), {"store": Store(paths.cloud_db)})
    try:
        OwnHttpServer((_LOOPBACK, http_port), handler).serve_forever()
    finally:
        running.stop(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
