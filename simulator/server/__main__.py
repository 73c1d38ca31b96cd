"""`python -m simulator.server serve MODEL [flags]`: the simulated vLLM as a process."""

import logging
import os
import sys

import uvloop

from simulator.engine import logs
from simulator.engine.engine import Engine
from simulator.engine.settings import Deployment, EngineError, deploy
from simulator.server.running import serve
from simulator.server.server import PORT, ApiServer
from twin.engines import vllm_flags as flags

_log = logging.getLogger("vllm")


def _make(deployment: Deployment) -> tuple[Engine, ApiServer]:
    engine = Engine(deployment)
    return engine, ApiServer(engine)


def main() -> None:
    """Run the server; exit with status 2 for invalid flags, and 1 if vLLM would not start."""
    logs.set_up()
    namespace = flags.parse(sys.argv[1:])
    try:
        deployment = deploy(namespace, os.environ)
        uvloop.run(serve(deployment, deployment.flags.port or PORT, lambda: _make(deployment)))
    except EngineError as error:
        _log.error("%s", error)
        sys.exit(1)
    except OSError as error:
        _log.error("%s: %s", type(error).__name__, error)
        sys.exit(1)


if __name__ == "__main__":
    main()
