"""Decides whether programs of pods may connect to other pods by their addresses.

The kernel asks before such a program connects (`twin/host/loopback_only.py`): one line
`NAMESPACE POD ADDRESS PORT`, answered by `ok` or by the reason for which Dataplane V2 drops it.
"""

import asyncio
import threading
from contextlib import suppress
from pathlib import Path

from twin.cluster.base.context import ClusterContext
from twin.cluster.base.informer import Informer
from twin.cluster.base.pod_network import PodNetwork
from twin.host.ports import free_port
from twin.wire.kube import JsonObject

_ALLOWED = "ok"
_CHECK_SECONDS = 0.5


def address_in(folder: Path) -> str:
    """Return host and port of the decisions of a cluster; empty before it has them.

    Args:
        folder: Folder of the cluster.
    """
    with suppress(FileNotFoundError):
        return _file(folder).read_text().strip()
    return ""


def _file(folder: Path) -> Path:
    return folder / "pod-connections"


class PodConnections:
    """Answers for one cluster."""

    def __init__(self, context: ClusterContext) -> None:
        self._folder = context.dir
        self._pods = Informer(context.watches, "/api/v1/pods", threading.Event())
        self._network = PodNetwork(context)

    def run(self, stop: threading.Event) -> None:
        """Serve until `stop` is set, at the previous address after a restart."""
        self._pods.start(stop)
        self._network.start(stop)
        asyncio.run(self._serve(stop))

    async def _serve(self, stop: threading.Event) -> None:
        known = address_in(self._folder) or f"127.0.0.1:{free_port()}"
        host, _, port = known.partition(":")
        async with await asyncio.start_server(self._answer, host, int(port)):
            _file(self._folder).write_text(known + "\n")
            while not stop.is_set():
                await asyncio.sleep(_CHECK_SECONDS)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ValueError):
            line = (await reader.readline()).decode()
            namespace, name, address, port = line.split()
            writer.write(f"{self.decide(namespace, name, address, int(port))}\n".encode())
            await writer.drain()
        writer.close()

    def decide(self, namespace: str, name: str, address: str, port: int) -> str:
        """Return `ok`, or why a pod does not reach an address.

        Only connections from a known pod to a known pod are refused.
        """
        sender = receiver = None
        for pod in self._pods.items():
            if _is(pod, namespace, name):
                sender = pod
            if pod.get("status", {}).get("podIP") == address:
                receiver = pod
        if sender is None or receiver is None:
            return _ALLOWED
        return self._network.refusal(sender, receiver, port) or _ALLOWED


def _is(pod: JsonObject, namespace: str, name: str) -> bool:
    return (pod["metadata"]["namespace"], pod["metadata"]["name"]) == (namespace, name)
