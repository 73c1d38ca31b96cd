"""The lifecycle of a simulated server process: startup, serving, shutdown.

SIGUSR1 simulates a faulty accelerator: each step takes `SICK_FACTOR` times as long, until SIGUSR2.
`GKE_INFERENCE_SIM_SLOWDOWN` makes each step take that many times as long from the start.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

from simulator.engine.engine import Engine
from simulator.engine.logs import LOG
from simulator.engine.settings import PREFIX, Deployment, EngineError
from simulator.server.group import Leader, hosts_of, names_file, port_of, work
from simulator.server.http_server import HttpServer
from simulator.server.startup import start_up
from workloads.common import serving

SICK_FACTOR = 10.0
"""Slowdown factor of steps after SIGUSR1."""


async def serve(
    deployment: Deployment, port: int, make: Callable[[], tuple[Engine, HttpServer]]
) -> None:
    """Start up, serve until SIGTERM or SIGINT, and shut down.

    Args:
        deployment: model, flags and hardware.
        port: port of the server.
        make: creates the engine and its server after loading.

    Raises:
        EngineError: a host of the engine is lost.
        OSError: the port is in use.
    """
    stop, loop = serving.stopping(), asyncio.get_running_loop()
    rank = int(deployment.flags.data_parallel_start_rank or 0)
    leader = Leader(0 if rank else hosts_of(deployment, os.environ) - 1)
    is_member = asyncio.Event()
    joined = asyncio.create_task(_join(deployment, rank, is_member)) if rank else None
    starting = asyncio.create_task(_start(deployment, leader, is_member if rank else None))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if stop.is_set():
        starting.cancel()
        return
    await starting
    engine, server = make()
    engine.slow_down(float(os.environ.get(PREFIX + "SLOWDOWN", "1")))
    loop.add_signal_handler(signal.SIGUSR1, engine.slow_down, SICK_FACTOR)
    loop.add_signal_handler(signal.SIGUSR2, engine.slow_down, 1.0)
    await server.start()
    LOG.info(
        "listening on http://%s:%s",
        deployment.surroundings.address,
        port,
        extra={"fields": {"model": deployment.served_names[0], "kv_blocks": deployment.kv_blocks}},
    )
    ends = {stopping, leader.lost} if joined is None else {stopping, joined}
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    lost = None if stop.is_set() else _lost(leader, joined)
    if lost is not None:
        engine.die()
    LOG.info("shutting down")
    await server.stop()
    await leader.close()
    if joined is not None:
        joined.cancel()
    if lost is not None:
        raise EngineError(f"RuntimeError: worker {lost} died: EngineCore encountered an issue.")


@contextmanager
def exit_on_failure(log: logging.Logger) -> Generator[None]:
    """Exit with status 1 and one line if the engine cannot start or its port is in use."""
    try:
        yield
    except EngineError as error:
        log.error("%s", error)
        sys.exit(1)
    except OSError as error:
        log.error("%s: %s", type(error).__name__, error)
        sys.exit(1)


async def _start(deployment: Deployment, leader: Leader, joined: asyncio.Event | None) -> None:
    """Wait for every host, or until the leader accepts this one, then load and compile."""
    if joined is not None:
        await joined.wait()
    await leader.wait(deployment.surroundings.address, port_of(deployment.flags))
    await start_up(deployment, dict(os.environ))


async def _join(deployment: Deployment, rank: int, joined: asyncio.Event) -> None:
    """Join the leader of the data-parallel ranks, until it ends; this host serves as well."""
    flags = deployment.flags
    name = deployment.surroundings.pod or f"rank-{rank}"
    address = str(flags.data_parallel_address or "")
    await work(address, port_of(flags), name, names_file(os.environ), joined)


def _lost(leader: Leader, joined: asyncio.Task[None] | None) -> str | None:
    """Return the name of a lost host of the group, or None."""
    if joined is not None and joined.done():
        return "of data-parallel rank 0"
    return leader.lost.result() if leader.lost.done() else None
