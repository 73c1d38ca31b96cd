"""BigQuery's data plane: a small HTTP server on a loopback port, started with the first grant.

`python -m twin.providers.gcp.bigquery.server ROOT PORT` serves. Tables are those of
`capacity.yaml`, which is read for each call; rows outlive the server.
"""

import json
import sys
from pathlib import Path
from typing import Final

from twin.host.loopback_server import LoopbackServer, served_by
from twin.host.own_callers import OwnHttpServer
from twin.host.paths import TwinPaths
from twin.providers.gcp.bigquery.inserts import Tables, failed, max_bytes, too_large
from twin.providers.gcp.bigquery.rows import Rows
from twin.wire.http_answers import Answers
from twin.wire.property_values import CloudError, Json
from twin.world.capacity import World
from twin.world.store import Store

NAME: Final = "bigquery"
_LOOPBACK: Final = "127.0.0.1"
_SERVER: Final = LoopbackServer(NAME, served_by("twin.providers.gcp.bigquery.server"))
_CHUNK: Final = 1 << 20


def address(paths: TwinPaths) -> str | None:
    """Return `HOST:PORT` of the API (`BIGQUERY_EMULATOR_HOST`); None if it does not run."""
    ports = _SERVER.running(paths)
    return None if ports is None else f"{_LOOPBACK}:{ports[0]}"


def ensure(paths: TwinPaths) -> None:
    """Start the server if it does not run.

    Raises:
        processes.ProcessError: It did not start.
    """
    _SERVER.ensure(paths)


def repair(paths: TwinPaths) -> None:
    """Restart the server on its port if it ran before and ended."""
    _SERVER.repair(paths)


class _Handler(Answers):
    paths: TwinPaths
    rows: Rows

    def do_GET(self) -> None:
        """Answer a call."""
        size = int(self.headers.get("Content-Length") or 0)
        if size > max_bytes():
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


def serve(paths: TwinPaths, port: int) -> OwnHttpServer:
    """Return a listening server; with port 0, on any free one."""
    fields = {"paths": paths, "rows": Rows(paths.root / f"{NAME}.db")}
    return OwnHttpServer((_LOOPBACK, port), type("Handler", (_Handler,), fields))


if __name__ == "__main__":
    serve(TwinPaths(Path(sys.argv[1])), int(sys.argv[2])).serve_forever()
