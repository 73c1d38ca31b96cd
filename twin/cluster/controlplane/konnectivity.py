"""The proxy from the API server to programs in the cluster, like GKE's konnectivity agents.

A webhook names a Service. The API server requests the Service's address from this proxy (HTTP
CONNECT over mutual TLS). Such addresses are not routed on this machine, so the proxy looks up the
Service, selects one of its ready pods, and connects to the actual port of the pod. It connects
directly to loopback addresses, which the twin's own API extensions have. The Service of a metrics
adapter leads to the twin's extension, because the adapter's pod does not run (rule
`metrics.adapter`).
"""

import asyncio
import ipaddress
import logging
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress

from twin.cluster.base import podports
from twin.cluster.base.api_extension import APISERVICES, port_behind
from twin.cluster.base.context import ClusterContext
from twin.cluster.base.fields import part, parts
from twin.cluster.base.informer import Informer
from twin.cluster.base.matching import container_port, selects
from twin.cluster.base.pod_network import PodNetwork
from twin.cluster.controlplane.processes import Ports
from twin.wire.kube import JsonObject, KubeError

_LOG = logging.getLogger(__name__)
_CHUNK = 65_536
_HEAD_SECONDS = 10.0
_CHECK_SECONDS = 0.5
_SERVICES = "/api/v1/services"
_PODS = "/api/v1/pods"
_REFUSED = (OSError, ValueError, KubeError, LookupError)

Objects = Callable[[str], list[JsonObject]]
"""Returns the objects of a collection."""


def target_of(authority: str) -> tuple[str, int]:
    """Return host and port of a CONNECT request's target.

    Raises:
        ValueError: the target is not `HOST:PORT`.
    """
    host, colon, port = authority.rpartition(":")
    if not colon or not port.isdigit():
        raise ValueError(f"target must be HOST:PORT, got {authority!r}")
    return host.strip("[]"), int(port)


def backends(
    service: JsonObject, port: int, pods: list[JsonObject]
) -> list[tuple[JsonObject, int]]:
    """Return (pod, container port) of the ready pods behind a port of a Service. Pure."""
    wanted = part(service["spec"], "selector")
    entry = next((each for each in parts(service["spec"], "ports") if each["port"] == port), None)
    if entry is None or not wanted:
        return []
    found: list[tuple[JsonObject, int]] = []
    for pod in pods:
        labels: dict[str, str] = pod["metadata"].get("labels") or {}
        number = container_port(pod, entry.get("targetPort") or port)
        if number is not None and selects({"matchLabels": wanted}, labels) and _is_ready(pod):
            found.append((pod, number))
    return found


def _is_ready(pod: JsonObject) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and any(
        entry["type"] == "Ready" and entry["status"] == "True"
        for entry in parts(part(pod, "status"), "conditions")
    )


class Konnectivity:
    """The proxy of one cluster."""

    def __init__(self, ctx: ClusterContext) -> None:
        self._ctx = ctx
        self._open: set[asyncio.Task[None]] = set()
        self._informers: dict[str, Informer] = {}
        self._network = PodNetwork(ctx)
        self._port = Ports.load_or_choose(ctx.dir / "ports.json").egress

    def run(self, stop: threading.Event) -> None:
        """Serve until `stop` is set."""
        for path in (_SERVICES, _PODS, APISERVICES):
            self._informers[path] = Informer(self._ctx.watches, path, threading.Event())
            self._informers[path].start(stop)
        self._network.start(stop)
        asyncio.run(self._serve(stop))

    async def _serve(self, stop: threading.Event) -> None:
        server = await asyncio.start_server(
            self._accept, "127.0.0.1", self._port, ssl=self._tls(), backlog=512
        )
        async with server:
            while not stop.is_set():
                await asyncio.sleep(_CHECK_SECONDS)
            server.close()
            for task in self._open:
                task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)

    def _tls(self) -> ssl.SSLContext:
        pki = self._ctx.paths.pki
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(pki / "ca.crt"))
        context.load_cert_chain(pki / "local.crt", pki / "local.key")
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._handle(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                upstream = await self._connect(head)
            writers.append(upstream[1])
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(_pump(reader, upstream[1]), _pump(upstream[0], writer))
        except (*_REFUSED, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            await self._refuse(writer, error)
        finally:
            for each in writers:
                each.close()
            for each in writers:
                with suppress(OSError):
                    await each.wait_closed()

    async def _connect(self, head: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection to the target of a CONNECT request."""
        method, authority, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
        if method != "CONNECT":
            raise ValueError(f"method must be CONNECT, got {method!r}")
        address = await asyncio.to_thread(self._resolve, *target_of(authority))
        return await asyncio.open_connection(*address)

    async def _refuse(self, writer: asyncio.StreamWriter, error: Exception) -> None:
        _LOG.debug("refused: %s", error)
        body = str(error).encode()
        head = f"HTTP/1.1 503 Service Unavailable\r\nContent-Length: {len(body)}\r\n\r\n"
        with suppress(OSError):
            writer.write(head.encode() + body)
            await writer.drain()

    def _resolve(self, host: str, port: int) -> tuple[str, int]:
        """Return the address behind a target.

        Raises:
            LookupError: no Service has the address, it has no ready pod, or NetworkPolicies close
                the way to the pod.
        """
        if ipaddress.ip_address(host).is_loopback:
            return host, port
        try:
            return self._find(host, port, lambda path: self._informers[path].items())
        except LookupError:  # what was made a moment ago
            return self._find(host, port, self._ctx.kube.list)

    def _find(self, host: str, port: int, objects: Objects) -> tuple[str, int]:
        services = objects(_SERVICES)
        service = next((each for each in services if each["spec"].get("clusterIP") == host), None)
        if service is None:
            raise LookupError(f"no Service has the address {host}")
        meta = service["metadata"]
        pods = [
            each for each in objects(_PODS) if each["metadata"]["namespace"] == meta["namespace"]
        ]
        for pod, number in backends(service, port, pods):
            extension = port_behind(self._ctx.dir, service, objects(APISERVICES))
            if extension is not None:
                return "127.0.0.1", extension
            dropped = self._network.refusal_of_control_plane(pod, number)
            if dropped is not None:
                raise LookupError(dropped)
            return podports.resolve(self._ctx.dir, pod, number)
        raise LookupError(f"Service {meta['namespace']}/{meta['name']}:{port} has no ready pod")


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until one side ends, then signal the end to the other."""
    with suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
    writer.close()
