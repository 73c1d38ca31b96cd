"""Disaggregated prefill and decode: transfer of the KV cache between engines.

As in vLLM's NixlConnector, the prefilling engine answers with `kv_transfer_params` and keeps the
blocks of the prompt. The decoding engine gets these parameters, allocates blocks, reads over the
network while other requests continue, and then tells the first engine to free its blocks. The
number of bytes depends on the model, the bandwidth on the machine. A small HTTP server replaces
NIXL's side channel.
"""

import asyncio
import os
import uuid
from collections.abc import Mapping
from typing import Any, Protocol

from aiohttp import ClientError, ClientSession, ClientTimeout, web

from gke_inference.sizing.memory import kv_token_bytes
from planner.speed.links import READ_LATENCY_SECONDS, read_bytes_per_second
from simulator.engine.logs import LOG
from simulator.engine.request import RemoteKv, Request
from simulator.engine.settings import Deployment

KEPT_SECONDS = 480.0
"""Time for which blocks wait for a reader: vLLM's default of VLLM_NIXL_ABORT_REQUEST_TIMEOUT."""
_CONNECTORS = ("NixlConnector", "TPUConnector")
_SIDE_CHANNEL_PORT = 5600
_NEEDED = ("remote_host", "remote_port", "remote_request_id")
_PEER_TIMEOUT = ClientTimeout(total=10, connect=2)


class TransferError(Exception):
    """The other engine is lost, or no longer has the blocks."""


class Peers(Protocol):
    """Client of other engines' side channels."""

    async def call(self, remote: RemoteKv, verb: str) -> int:
        """Request a kept prompt (`read`) or release it (`done`); return the other side's chips.

        Raises:
            TransferError: there is no such engine or prompt.
        """
        ...


class HttpPeers:
    """Side channels over HTTP."""

    async def call(self, remote: RemoteKv, verb: str) -> int:
        """Call another engine.

        Raises:
            TransferError: there is no such engine or prompt.
        """
        url = f"http://{remote.host}:{remote.port}/{verb}/{remote.request_id}"
        try:
            async with (
                ClientSession(timeout=_PEER_TIMEOUT) as session,
                session.post(url) as answer,
            ):
                if answer.status != 200:
                    raise TransferError(f"{url}: status {answer.status}")
                return int((await answer.json())["chips"])
        except (ClientError, OSError) as error:
            raise TransferError(f"{url}: {error}") from error


class KvTransfer:
    """One engine's side of the transfers.

    Args:
        deployment: deployment of the engine; without `--kv-transfer-config`, nothing is
            transferred.
        peers: connections to the other engines.
    """

    def __init__(self, deployment: Deployment, peers: Peers | None = None) -> None:
        config: Mapping[str, Any] = deployment.flags.kv_transfer_config or {}
        self.enabled = config.get("kv_connector") in _CONNECTORS
        self.recomputes = config.get("kv_load_failure_policy", "fail") == "recompute"
        self.peers: Peers = peers or HttpPeers()
        self.engine_id = uuid.uuid4().hex
        self.host = os.environ.get("VLLM_NIXL_SIDE_CHANNEL_HOST", "localhost")
        self.port = int(os.environ.get("VLLM_NIXL_SIDE_CHANNEL_PORT", _SIDE_CHANNEL_PORT))
        self.chips = deployment.chips
        self._network = deployment.surroundings.host_network
        self._token_bytes = kv_token_bytes(deployment.shape, deployment.kv_bits)
        self._kept: dict[str, tuple[Request, float]] = {}
        self._link_free_at = 0.0
        self._runner: web.AppRunner | None = None

    def wish(self, params: Any) -> tuple[RemoteKv | None, bool]:
        """Return the meaning of a request's `kv_transfer_params`: (KV to read, whether to keep it).

        Incomplete parameters are ignored, as vLLM does with a warning.
        """
        if not self.enabled or not isinstance(params, dict):
            return None, False
        given: dict[str, Any] = params
        keeps = bool(given.get("do_remote_decode"))
        if not given.get("do_remote_prefill"):
            return None, keeps
        if any(given.get(name) is None for name in _NEEDED):
            LOG.warning("kv_transfer_params lack one of %s and are ignored", ", ".join(_NEEDED))
            return None, keeps
        host, port = str(given["remote_host"]), int(given["remote_port"])
        return RemoteKv(host, port, str(given["remote_request_id"])), keeps

    def answer(self, request: Request) -> dict[str, Any] | None:
        """Return the `kv_transfer_params` in the response to a request whose blocks are kept."""
        if request.id not in self._kept:
            return None
        return {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "remote_block_ids": list(request.blocks),
            "remote_engine_id": self.engine_id,
            "remote_request_id": f"{self.engine_id}-{request.id}",
            "remote_host": self.host,
            "remote_port": self.port,
            "tp_size": self.chips,
        }

    def keep(self, request: Request, now: float) -> list[Request]:
        """Keep a request's blocks; return expired ones, which must be freed."""
        expired = [key for key, (_, until) in self._kept.items() if until < now]
        lost = [self._kept.pop(key)[0] for key in expired]
        self._kept[request.id] = (request, now + KEPT_SECONDS)
        return lost

    def kept(self, request_id: str) -> Request | None:
        """Return the request for an ID from `answer`, if its blocks are still kept."""
        engine, _, number = request_id.rpartition("-")
        entry = self._kept.get(number) if engine == self.engine_id else None
        return None if entry is None else entry[0]

    def let_go(self, request: Request) -> None:
        """Remove a request whose blocks were read."""
        self._kept.pop(request.id, None)

    def bytes_of(self, tokens: int) -> int:
        """Return the bytes of KV of some tokens."""
        return tokens * self._token_bytes

    def arrival(self, size: int, now: float, remote_chips: int) -> float:
        """Return the end time of a read that starts now; reads share the engine's network."""
        chips = min(self.chips, remote_chips)
        seconds = size / read_bytes_per_second(self._network, chips)
        self._link_free_at = max(now, self._link_free_at) + seconds
        return self._link_free_at + READ_LATENCY_SECONDS

    async def serve(self, address: str, release: Any) -> None:
        """Open the side channel on the pod's address; `release` frees a request's blocks.

        Raises:
            OSError: the port is in use.
        """
        if not self.enabled:
            return

        async def answer(http: web.Request) -> web.Response:
            request = self.kept(http.match_info["id"])
            if request is None:
                return web.json_response({"error": "no such request"}, status=404)
            if http.match_info["verb"] == "done":
                release(request)
            return web.json_response({"chips": self.chips})

        app = web.Application()
        app.router.add_post("/{verb:read|done}/{id}", answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, address, self.port).start()

    async def close(self) -> None:
        """Close the side channel; engines that have not read yet compute the prompt."""
        if self._runner is not None:
            await self._runner.cleanup()


def spawn(tasks: set[asyncio.Task[None]], work: Any) -> None:
    """Run a coroutine in parallel with the engine's steps, and keep it until it is done."""
    task: asyncio.Task[None] = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
