"""The life of a simulated server as a process: start up, serve, end.

SIGUSR1 makes it a server on a sick accelerator: each step takes `SICK_FACTOR` times as long, until
SIGUSR2.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Callable

from simulator.engine.engine import Engine
from simulator.engine.settings import Deployment, EngineError
from simulator.server.group import Leader, hosts_of, port_of
from simulator.server.http_server import HttpServer
from simulator.server.startup import start_up

SICK_FACTOR = 10.0
"""How many times as long a step takes after SIGUSR1."""

_log = logging.getLogger("vllm")


async def serve(
    deployment: Deployment, port: int, make: Callable[[], tuple[Engine, HttpServer]]
) -> None:
    """Start up, serve until SIGTERM or SIGINT, and shut down.

    Args:
        deployment: what is served, on what.
        port: on which.
        make: makes the engine and its server, once everything is loaded.

    Raises:
        EngineError: a host of the engine is gone.
        OSError: the port is taken.
    """
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
    engine, server = make()
    loop.add_signal_handler(signal.SIGUSR1, engine.slow_down, SICK_FACTOR)
    loop.add_signal_handler(signal.SIGUSR2, engine.slow_down, 1.0)
    await server.start()
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
