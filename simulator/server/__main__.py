"""`python -m simulator.server serve MODEL [flags]`: the simulated server as a process.

SIGUSR1 makes it a server on a sick accelerator: each step takes `SICK_FACTOR` times as long, until
SIGUSR2.
"""

import asyncio
import logging
import os
import signal
import sys

import uvloop

from simulator.engine import logs
from simulator.engine.engine import Engine
from simulator.engine.settings import Deployment, EngineError, deploy
from simulator.server.group import Leader, hosts_of, port_of
from simulator.server.server import ApiServer
from simulator.server.startup import start_up
from twin.engines import vllm_flags as flags

SICK_FACTOR = 10.0
"""How many times as long a step takes after SIGUSR1."""

_log = logging.getLogger("vllm")


async def serve(deployment: Deployment) -> None:
    """Start up, serve until SIGTERM or SIGINT, and shut down."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    leader = Leader(hosts_of(deployment, os.environ) - 1)
    starting = asyncio.create_task(_start(deployment, leader))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if stop.is_set():
        starting.cancel()
        return
    await starting
    engine = Engine(deployment)
    loop.add_signal_handler(signal.SIGUSR1, engine.slow_down, SICK_FACTOR)
    loop.add_signal_handler(signal.SIGUSR2, engine.slow_down, 1.0)
    server = ApiServer(engine)
    await server.start()
    port = deployment.flags.port or 8000
    _log.info(
        "listening on http://%s:%s",
        deployment.surroundings.address,
        port,
        extra={"fields": {"model": deployment.served_names[0], "kv_blocks": deployment.kv_blocks}},
    )
    await asyncio.wait({stopping, leader.lost}, return_when=asyncio.FIRST_COMPLETED)
    lost = leader.lost.result() if leader.lost.done() and not stop.is_set() else None
    if lost is not None:
        engine.die()
    _log.info("shutting down")
    await server.stop()
    await leader.close()
    if lost is not None:
        raise EngineError(f"RuntimeError: worker {lost} died: EngineCore encountered an issue.")


async def _start(deployment: Deployment, leader: Leader) -> None:
    """Wait for every host, then load and compile."""
    await leader.wait(deployment.surroundings.address, port_of(deployment.flags))
    await start_up(deployment, dict(os.environ))


def main() -> None:
    """Run the server; status 2 for wrong flags, 1 where vLLM would not come up."""
    logs.set_up()
    namespace = flags.parse(sys.argv[1:])
    try:
        deployment = deploy(namespace, os.environ)
        uvloop.run(serve(deployment))
    except EngineError as error:
        _log.error("%s", error)
        sys.exit(1)
    except OSError as error:
        _log.error("%s: %s", type(error).__name__, error)
        sys.exit(1)


if __name__ == "__main__":
    main()
