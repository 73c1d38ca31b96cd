"""A replica over several hosts: the leader waits for its workers, and ends when one is gone.

What goes between hosts in a real group (Ray, or torch's collectives) is here one connection from
each worker to the leader, held open for as long as both live. Its loss is what a lost host is.
"""

import argparse
import asyncio
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from simulator.engine.settings import PREFIX, Deployment
from twin.engines.vllm_flags import MASTER_PORT, RAY_PORT

_log = logging.getLogger("vllm")
_LOOK_SECONDS = 0.2


def hosts_of(deployment: Deployment, environment: Mapping[str, str]) -> int:
    """Return the hosts of the engine: what its flags say, or the operator's group with Ray."""
    flags = deployment.flags
    if flags.distributed_executor_backend == "ray":
        return int(environment.get("LWS_GROUP_SIZE", "1"))
    return int(flags.nnodes or 1)


def port_of(flags: argparse.Namespace) -> int:
    """Return the port on which the leader waits for its workers."""
    if flags.distributed_executor_backend == "ray":
        return RAY_PORT
    return int(flags.master_port or MASTER_PORT)


class Leader:
    """The leader's side.

    Args:
        workers: how many join.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._joined: set[str] = set()
        self._held: list[asyncio.StreamWriter] = []
        self._complete = asyncio.Event()
        self._server: asyncio.Server | None = None
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Done, with the worker's name, once one is gone."""

    async def wait(self, address: str, port: int) -> None:
        """Listen, and return when every worker has joined."""
        if self._workers == 0:
            return
        self._server = await asyncio.start_server(self._hold, address, port)
        _log.info("waiting for %s workers", self._workers)
        await self._complete.wait()

    async def _hold(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = (await reader.readline()).decode().strip()
        if not name:  # a probe of the port
            writer.close()
            return
        self._joined.add(name)
        self._held.append(writer)
        _log.info("worker %s joined, %s of %s", name, len(self._joined), self._workers)
        if len(self._joined) == self._workers:
            self._complete.set()
        with suppress(OSError):
            await reader.read()
        if not self.lost.done():
            self.lost.set_result(name)

    async def close(self) -> None:
        """Let the workers go."""
        if self._server is not None:
            self._server.close()
        for writer in self._held:
            writer.close()
        for writer in self._held:
            with suppress(OSError):
                await writer.wait_closed()


async def work(leader: str, port: int, name: str, names: Path) -> None:
    """Join a leader by its name in the cluster and stay until it is gone.

    Args:
        leader: `HOSTNAME.SUBDOMAIN.NAMESPACE`.
        port: on which it waits.
        name: of this worker.
        names: file that says which name has which address.
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
        _log.info("joined %s at %s:%s", leader, address, port)
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
    return known.get(name)


def names_file(environment: Mapping[str, str]) -> Path:
    """Return the file of names that the container's host keeps."""
    return Path(environment.get(PREFIX + "NAMES", "names.json"))
