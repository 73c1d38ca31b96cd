"""Endpoints of Private Service Connect: what a consumer of a published gateway connects to.

An endpoint listens on its address while its connection is accepted. Each byte passes unchanged: TLS
ends at the gateway.
"""

import asyncio
import logging
import socket
import struct
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from twin.cluster.gateway.envoy.messages import published_side
from twin.front.cloud import Cloud
from twin.host.paths import TwinPaths
from twin.providers.gcp.resources.references import ATTACHMENT, FORWARDING_RULE
from twin.providers.gcp.resources.service_connections import GROUP, connection_of, settle
from twin.world.store import Listing, Record

_ADDRESS: Final = "gcp:compute/address:Address"
_TYPES: Final = (ATTACHMENT, FORWARDING_RULE, GROUP, _ADDRESS)
_PERIOD_SECONDS: Final = 0.5
_CONNECT_SECONDS: Final = 2.0
_CHUNK_BYTES: Final = 1 << 16
_SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"
_NO_LINGER: Final = struct.pack("ii", 1, 0)
_PROXY_V2, _TCP_OVER_IPV4, _CONNECTION_ID = 0x21, 0x11, 0xE0
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Endpoint:
    """An accepted endpoint."""

    name: str
    address: str
    port: int
    gateway: str
    """Address of the gateway behind the service attachment."""
    source: str
    """Address of the NAT subnet that the gateway sees."""
    proxy_id: int | None = None
    """ID of the connection, if the attachment adds it in a PROXY protocol header."""


def endpoints(records: Iterable[Record]) -> Iterator[Endpoint]:
    """Yield the endpoints through which traffic can flow (rule cloud.psc-connection)."""
    cloud = Cloud.of(records)
    for rule in cloud.records:
        attachment = cloud.named(rule.inputs.get("target"), {ATTACHMENT})
        if rule.type != FORWARDING_RULE or attachment is None:
            continue
        connection = connection_of(attachment, rule)
        gateway = cloud.named(attachment.inputs.get("targetService"), {FORWARDING_RULE})
        if connection is None or not connection.is_open or connection.source is None:
            continue
        if gateway is None or not gateway.outputs.get("ipAddress"):
            continue
        given = rule.inputs.get("ipAddress") or rule.outputs.get("ipAddress")
        reserved = cloud.named(given, {_ADDRESS})
        has_header = attachment.inputs.get("enableProxyProtocol") is True
        yield Endpoint(
            name=rule.name,
            address=str(given if reserved is None else reserved.outputs.get("address")),
            port=int(str(gateway.outputs.get("portRange", "443")).partition("-")[0]),
            gateway=str(gateway.outputs["ipAddress"]),
            source=connection.source,
            proxy_id=int(connection.number) if has_header else None,
        )


class EndpointTier:
    """The listeners of all endpoints of a twin."""

    def __init__(self, paths: TwinPaths) -> None:
        self._resources = Listing(paths, _TYPES, settle)
        self._served: dict[Endpoint, _Served] = {}

    def run(self, stop: threading.Event) -> None:
        """Follow the cloud until `stop` is set."""
        asyncio.run(self._follow(stop))

    async def _follow(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                await self.reconcile()
            except Exception:  # noqa: BLE001 - connections stay as they are until the next look
                _log.exception("endpoints")
            await asyncio.sleep(_PERIOD_SECONDS)
        await self._close(set(self._served))

    async def reconcile(self) -> None:
        """Decide about connections; open accepted endpoints, and end all others at once."""
        wanted = set(await asyncio.to_thread(self._wanted))
        await self._close(self._served.keys() - wanted)
        for endpoint in wanted - self._served.keys():
            served = _Served(endpoint)
            try:
                await served.open()
            except OSError as error:
                _log.warning("endpoint %s: %s", endpoint.name, error)
                continue
            self._served[endpoint] = served

    def _wanted(self) -> list[Endpoint]:
        return list(endpoints(self._resources.all()))

    async def _close(self, gone: set[Endpoint]) -> None:
        for endpoint in gone:
            await self._served.pop(endpoint).close()


class _Served:
    """The listener of an endpoint, and its connections."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def open(self) -> None:
        """Listen.

        Raises:
            OSError: Another program has the address.
        """
        address, port = self._endpoint.address, self._endpoint.port
        self._server = await asyncio.start_server(self._accept, address, port)

    async def close(self) -> None:
        """Stop listening, and break every connection."""
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            _reset(writer)
        await asyncio.sleep(0)  # a transport closes its socket in the next turn of the loop

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Connect a client to the gateway; without one, reset its connection."""
        at = published_side(self._endpoint.gateway), self._endpoint.port
        self._writers.add(writer)
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                answers, requests = await asyncio.open_connection(*at)
        except OSError:
            _reset(writer)
            self._writers.discard(writer)
            return
        self._writers.add(requests)
        try:
            requests.write(self._headers(writer.get_extra_info("peername")))
            await asyncio.gather(_copy(reader, requests), _copy(answers, writer))
        finally:
            for each in (writer, requests):
                self._writers.discard(each)
                each.close()

    def _headers(self, client: tuple[str, int]) -> bytes:
        """Return what precedes a client's bytes: the translated source, and Google's own header."""
        endpoint = self._endpoint
        ports = f"{client[1]} {endpoint.port}"
        translated = f"PROXY TCP4 {endpoint.source} {endpoint.gateway} {ports}\r\n".encode()
        if endpoint.proxy_id is None:
            return translated
        both = b"".join(ip_address(each).packed for each in (client[0], endpoint.address))
        body = both + struct.pack(
            "!HHBHQ", client[1], endpoint.port, _CONNECTION_ID, 8, endpoint.proxy_id
        )
        head = struct.pack("!BBH", _PROXY_V2, _TCP_OVER_IPV4, len(body))
        return translated + _SIGNATURE + head + body


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection so that its other side sees that it is not the end of an answer."""
    plain: socket.socket = writer.get_extra_info("socket")
    with suppress(OSError):
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    writer.transport.abort()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Copy until the end of a connection; a reset passes to the other one."""
    try:
        while chunk := await source.read(_CHUNK_BYTES):
            target.write(chunk)
            await target.drain()
        target.write_eof()
    except OSError:  # also of a socket that the other side reset before
        _reset(target)
