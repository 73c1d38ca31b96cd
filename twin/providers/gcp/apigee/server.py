"""The stand-in for Apigee's runtime as a process: Envoy's external processing.

`python -m twin.providers.gcp.apigee.server ROOT PORT` serves; `endpoint` starts it on first use.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Final

from twin.host.loopback_server import LoopbackServer, served_by
from twin.host.paths import TwinPaths
from twin.providers.gcp.apigee.decision import Counters
from twin.providers.gcp.apigee.exchange import Exchange
from twin.wire import callout_server
from twin.world.store import Store

NAME: Final = "apigee"
_LOOPBACK: Final = "127.0.0.1"
_SERVER: Final = LoopbackServer(NAME, served_by("twin.providers.gcp.apigee.server"))


def endpoint(paths: TwinPaths) -> tuple[str, int]:
    """Return its address for load balancers, after starting it if needed.

    Raises:
        processes.ProcessError: the server did not start.
    """
    return _LOOPBACK, _SERVER.ensure(paths)[0]


def repair(paths: TwinPaths) -> None:
    """Restart it on its port if it ran before and ended."""
    _SERVER.repair(paths)


def main(root: Path, port: int) -> None:
    """Serve until the process ends."""
    paths = TwinPaths(root)
    exchange = partial(Exchange, paths, Store(paths.cloud_db), Counters())
    callout_server.serve(port, exchange).wait_for_termination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
