"""A multi-host replica: the leader waits for its workers, and exits when one is lost.

One connection from each worker to the leader, open while both run, replaces the traffic between
hosts in a real group (Ray, or torch's collectives). Losing it means losing the host.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from simulator.engine import PREFIX
from simulator.engine.logs import LOG
from twin.engines.vllm_flags import DATA_PARALLEL_PORT, MASTER_PORT, RAY_PORT

if TYPE_CHECKING:  # workers of a group start without the settings of an engine
    from simulator.engine.settings import Deployment

_LOOK_SECONDS = 0.2
_SIZES = ("LWS_GROUP_SIZE", "RAY_CLUSTER_HOSTS")


def hosts_of(deployment: Deployment, environment: Mapping[str, str]) -> int:
    """Return the number of hosts: from the flags, or from the operator's group with Ray."""
    flags = deployment.flags
    if deployment.experts is not None:
        return deployment.experts.hosts
    if flags.distributed_executor_backend == "ray":
        return int(next((environment[name] for name in _SIZES if name in environment), "1"))
    return int(flags.nnodes or 1)


def port_of(flags: argparse.Namespace) -> int:
    """Return the port on which the leader waits for its workers."""
    if flags.distributed_executor_backend == "ray":
        return RAY_PORT
    if flags.data_parallel_address:
        return int(flags.data_parallel_rpc_port or DATA_PARALLEL_PORT)
    return int(flags.master_port or MASTER_PORT)


class Leader:
    """The leader's side.

    Args:
        workers: number of workers.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._joined: set[str] = set()
        self._held: list[asyncio.StreamWriter] = []
        self._complete = asyncio.Event()
        self._server: asyncio.Server | None = None
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Future with the name of the first lost worker."""

    async def wait(self, address: str, port: int) -> None:
        """Listen until every worker has joined."""
        if self._workers == 0:
            return
        self._server = await asyncio.start_server(self._hold, address, port)
        LOG.info("waiting for %s workers", self._workers)
        await self._complete.wait()

    async def _hold(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = (await reader.readline()).decode().strip()
        if not name:  # a probe of the port
            writer.close()
            return
        self._joined.add(name)
        self._held.append(writer)
        LOG.info("worker %s joined, %s of %s", name, len(self._joined), self._workers)
        if len(self._joined) == self._workers:
            self._complete.set()
        with suppress(OSError):
            await reader.read()
        if not self.lost.done():
            self.lost.set_result(name)

    async def close(self) -> None:
        """Release the workers."""
        if self._server is not None:
            self._server.close()
        for writer in self._held:
            writer.close()
        for writer in self._held:
            with suppress(OSError):
                await writer.wait_closed()


async def work(
    leader: str, port: int, name: str, names: Path, joined: asyncio.Event | None = None
) -> None:
    """Join a leader by its name in the cluster, and stay until the leader ends.

    Args:
        leader: `HOSTNAME.SUBDOMAIN.NAMESPACE`, or the name of a Service for one pod.
        port: port of the leader.
        name: name of this worker.
        names: file that maps names to addresses.
        joined: set once this worker has joined.
    """
    while True:
        address = _address(leader, names)
        if address is not None:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection(address, port)
                break
        await asyncio.sleep(_LOOK_SECONDS)
    try:
        writer.write(f"{name}\n".encode())
        LOG.info("joined %s at %s:%s", leader, address, port)
        if joined is not None:
            joined.set()
        with suppress(OSError):
            await writer.drain()
            await reader.read()
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def _address(name: str, names: Path) -> str | None:
    try:
        known: dict[str, str] = json.loads(names.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return known.get(name.split(".svc", 1)[0])


def names_file(environment: Mapping[str, str]) -> Path:
    """Return the names file of the container's host."""
    return Path(environment.get(PREFIX + "NAMES", "names.json"))
