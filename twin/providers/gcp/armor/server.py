"""The stand-in for Model Armor as a process: Envoy's external processing, and its REST methods.

`python -m twin.providers.gcp.armor.server ROOT GRPC_PORT HTTP_PORT` serves; `endpoint` starts it on
first use. It is stateless: templates are those of the twin's cloud, and no text is stored.
"""

import json
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any, Final

from twin.host.loopback_server import LoopbackServer, served_by
from twin.host.own_callers import OwnHttpServer
from twin.host.paths import TwinPaths
from twin.providers.gcp.armor import verdicts
from twin.providers.gcp.armor.exchange import Exchange
from twin.wire import callout_server
from twin.wire.http_answers import JSON, Answers
from twin.wire.property_values import CloudError, Json
from twin.world.store import Store

NAME: Final = "model-armor"
_LOOPBACK: Final = "127.0.0.1"
_SERVER: Final = LoopbackServer(NAME, served_by("twin.providers.gcp.armor.server"), count=2)
_METHOD: Final = re.compile(
    r"/v1/(projects/[^/:]+/locations/[^/:]+/templates/[^/:]+)"
    r":(sanitizeUserPrompt|sanitizeModelResponse)"
)
_DATA: Final = {
    "sanitizeUserPrompt": "userPromptData",
    "sanitizeModelResponse": "modelResponseData",
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


def main(root: Path, grpc_port: int, http_port: int) -> None:
    """Serve both until the process ends."""
    paths = TwinPaths(root)
    store = Store(paths.cloud_db)
    running = callout_server.serve(grpc_port, partial(Exchange, store))
    handler = type("Handler", (_Handler,), {"store": store})
    try:
        OwnHttpServer((_LOOPBACK, http_port), handler).serve_forever()
    finally:
        running.stop(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
