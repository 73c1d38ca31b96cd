"""BigQuery's data plane: a small HTTP server on a loopback port, started with the first grant.

`python -m twin.providers.gcp.bigquery.server ROOT PORT` serves. Tables are those of
`capacity.yaml`, which is read for each call; rows outlive the server.
"""

import http.server
import json
import socket
import sys
import time
from pathlib import Path
from typing import Final

from twin.host import processes
from twin.host.locks import exclusive
from twin.host.paths import TwinPaths
from twin.host.ports import free_port
from twin.providers.gcp.bigquery.inserts import Tables, failed, most_bytes, too_large
from twin.providers.gcp.bigquery.rows import Rows
from twin.wire.http_answers import Answers
from twin.wire.property_values import CloudError, Json
from twin.world.capacity import World
from twin.world.store import Store

NAME: Final = "bigquery"
_LOOPBACK: Final = "127.0.0.1"
_FREED_SECONDS: Final = 2.0
_CHUNK: Final = 1 << 20


def address(paths: TwinPaths) -> str | None:
    """Return `HOST:PORT` of the API (`BIGQUERY_EMULATOR_HOST`); None if it does not run."""
    port = None if processes.pid_of(paths, NAME) is None else _saved(paths)
    return None if port is None else f"{_LOOPBACK}:{port}"


def ensure(paths: TwinPaths) -> None:
    """Start the server if it does not run.

    Raises:
        processes.ProcessError: It did not start.
    """
    paths.root.mkdir(parents=True, exist_ok=True)
    with exclusive(paths.root / f"{NAME}.lock"):
        if processes.pid_of(paths, NAME) is not None:
            return
        port = _saved(paths)
        if port is None or not _is_freed(port):
            port = free_port()
        (paths.root / f"{NAME}.json").write_text(json.dumps({"port": port}))
        argv = [sys.executable, "-m", __name__, str(paths.root), str(port)]
        processes.ensure(paths, NAME, argv, ready=lambda: _answers(port))


def repair(paths: TwinPaths) -> None:
    """Restart the server on its port if it ran before and ended."""
    if _saved(paths) is not None:
        ensure(paths)


def _saved(paths: TwinPaths) -> int | None:
    try:
        return int(json.loads((paths.root / f"{NAME}.json").read_text())["port"])
    except (FileNotFoundError, ValueError, KeyError):
        return None


def _is_freed(port: int) -> bool:
    """Return whether a port is free; a stopped program can hold it for a moment."""
    limit = time.monotonic() + _FREED_SECONDS
    while _answers(port):
        if time.monotonic() > limit:
            return False
        time.sleep(0.02)
    return True


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((_LOOPBACK, port)) == 0


class _Handler(Answers):
    paths: TwinPaths
    rows: Rows

    def do_GET(self) -> None:
        """Answer a call."""
        size = int(self.headers.get("Content-Length") or 0)
        if size > most_bytes():
            while size > 0:  # a client reads an answer only after it has sent everything
                size -= len(self.rfile.read(min(size, _CHUNK))) or size
            self._send(*too_large())
            return
        body = self.rfile.read(size)
        try:
            tables = Tables(
                World.load(self.paths.capacity_file), Store(self.paths.cloud_db), self.rows
            )
        except ValueError as error:  # somebody is editing the file
            self._send(*failed(CloudError(503, str(error), "backendError")))
            return
        self._send(*tables.answer(self.command, self.path, body))

    do_DELETE = do_PATCH = do_POST = do_PUT = do_GET

    def _send(self, status: int, body: Json) -> None:
        self.reply(status, "application/json; charset=UTF-8", json.dumps(body).encode())


def serve(paths: TwinPaths, port: int) -> http.server.ThreadingHTTPServer:
    """Return a listening server; with port 0, on any free one."""
    fields = {"paths": paths, "rows": Rows(paths.root / f"{NAME}.db")}
    return http.server.ThreadingHTTPServer((_LOOPBACK, port), type("Handler", (_Handler,), fields))


if __name__ == "__main__":
    serve(TwinPaths(Path(sys.argv[1])), int(sys.argv[2])).serve_forever()
