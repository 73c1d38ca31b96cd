"""Endpoints of Private Service Connect: what passes to a published gateway, and what ends that."""

import asyncio
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from twin.front import endpoints as module
from twin.front.endpoints import Endpoint, EndpointTier, endpoints
from twin.host.ports import free_port
from twin.tests.consumers import Consumers
from twin.tests.eventually import eventually
from twin.tests.unit.gcp.conftest import Cloud, without_waits

SHOP, BANK = "acme-shop", "acme-bank"
GATEWAY, BEHIND = "127.32.249.7", "127.38.249.7"


class Producer:
    """What is behind the gateway's published side: it answers with what it received."""

    def __init__(self, port: int) -> None:
        self._server = socket.create_server((BEHIND, port))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._echo, args=(client,), daemon=True).start()

    @staticmethod
    def _echo(client: socket.socket) -> None:
        with client, suppress(ConnectionResetError):
            while data := client.recv(4096):
                client.sendall(data)

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def producer(port: int) -> Iterator[Producer]:
    found = Producer(port)
    yield found
    found.close()


@pytest.fixture
def place(tmp_path: Path, port: int) -> Consumers:
    return Consumers(Cloud(without_waits(tmp_path / "twin")), GATEWAY, port)


def follow(place: Consumers, work: Callable[[EndpointTier], Awaitable[None]]) -> None:
    """Run something beside the listeners of the endpoints."""

    async def run() -> None:
        tier = EndpointTier(place.cloud.paths)
        await tier.reconcile()
        await work(tier)
        place.publish({})
        await tier.reconcile()

    asyncio.run(run())


async def ask(made: Any, port: int, text: bytes = b"hello") -> bytes:
    """Return the answer at an endpoint's address; empty if the connection is reset."""
    address = made.outputs["ipAddress"]
    reader, writer = await asyncio.open_connection(address, port)
    try:
        writer.write(text)
        writer.write_eof()
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def reached(place: Consumers, name: str = "one", project: str = SHOP) -> Any:
    """Create an endpoint whose outputs have the address that was reserved for it."""
    address = place.address(project, name)
    made = place.endpoint(project, name, ipAddress=address.id)
    made.outputs["ipAddress"] = address.outputs["address"]
    return made


def test_bytes_pass_after_the_address_that_the_producer_sees(
    place: Consumers, port: int, producer: Producer
) -> None:
    del producer
    place.publish({SHOP: 1})
    made = reached(place)

    async def work(_tier: EndpointTier) -> None:
        head, _, rest = (await ask(made, port)).partition(b"\r\n")
        words = head.decode().split()
        assert words[:4] == ["PROXY", "TCP4", "10.3.0.2", GATEWAY]
        assert (words[5], rest) == (str(port), b"hello")

    follow(place, work)


def test_the_proxy_protocol_has_the_client_and_the_number_of_the_connection(
    place: Consumers, port: int, producer: Producer
) -> None:
    del producer
    place.publish({SHOP: 1}, enableProxyProtocol=True)
    made = reached(place)

    async def work(_tier: EndpointTier) -> None:
        _, _, rest = (await ask(made, port)).partition(b"\r\n")
        assert rest[:12] == b"\r\n\r\n\0\r\nQUIT\n"
        version, family, length = struct.unpack("!BBH", rest[12:16])
        assert (version, family, rest[16 + length :]) == (0x21, 0x11, b"hello")
        assert socket.inet_ntoa(rest[16:20]) == "127.0.0.1"
        assert socket.inet_ntoa(rest[20:24]) == made.outputs["ipAddress"]
        kind, size, number = struct.unpack("!BHQ", rest[28:39])
        assert (kind, size, str(number)) == (0xE0, 8, made.outputs["pscConnectionId"])

    follow(place, work)


def test_only_accepted_endpoints_listen_and_a_removal_from_the_list_breaks_connections(
    place: Consumers, port: int, producer: Producer
) -> None:
    del producer
    place.publish({SHOP: 1})
    made, other = reached(place), reached(place, "one", BANK)

    async def work(tier: EndpointTier) -> None:
        with pytest.raises(ConnectionRefusedError):
            await ask(other, port)
        reader, writer = await asyncio.open_connection(made.outputs["ipAddress"], port)
        writer.write(b"first")
        assert (await reader.readuntil(b"first")).endswith(b"first")
        place.publish({BANK: 1})
        await tier.reconcile()
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await ask(made, port)
        assert (await ask(other, port)).endswith(b"hello")

    follow(place, work)


def test_a_client_that_resets_its_connection_resets_that_of_the_gateway(
    place: Consumers, port: int
) -> None:
    place.publish({SHOP: 1})
    made = reached(place)

    async def work(_tier: EndpointTier) -> None:
        arrived, lost = asyncio.Event(), asyncio.Event()

        async def gateway(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while await reader.read(4096):
                    arrived.set()
            except ConnectionResetError:
                lost.set()
            writer.close()

        async with await asyncio.start_server(gateway, BEHIND, port), asyncio.timeout(5):
            _, writer = await asyncio.open_connection(made.outputs["ipAddress"], port)
            await arrived.wait()
            plain: socket.socket = writer.get_extra_info("socket")
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            await lost.wait()

    follow(place, work)


def test_a_client_is_reset_while_the_gateway_is_lost(place: Consumers, port: int) -> None:
    place.publish({SHOP: 1})
    made = reached(place)

    async def work(_tier: EndpointTier) -> None:
        assert await ask(made, port) == b""

    follow(place, work)


def test_an_endpoint_whose_gateway_is_gone_leads_nowhere(place: Consumers, port: int) -> None:
    place.publish({SHOP: 1})
    made = reached(place)
    store = place.cloud.world.store
    (found,) = endpoints(store.all())
    assert found == Endpoint("one", made.outputs["ipAddress"], port, GATEWAY, "10.3.0.2")
    store.remove("gcp:compute/forwardingRule:ForwardingRule", place.rule)
    assert list(endpoints(store.all())) == []


def test_endpoints_are_followed_after_a_failure(
    place: Consumers, producer: Producer, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    del producer
    place.publish({SHOP: 1})
    made, seen, stop = reached(place), list[Any](), threading.Event()

    def failing_once(records: Any) -> Iterator[Endpoint]:
        seen.append(records)
        if len(seen) == 1:
            raise RuntimeError("database is locked")
        return endpoints(records)

    monkeypatch.setattr(module, "endpoints", failing_once)
    tier = threading.Thread(target=EndpointTier(place.cloud.paths).run, args=(stop,), daemon=True)
    tier.start()
    eventually(lambda: len(seen) > 2)  # what the second look found is served before the third
    assert asyncio.run(ask(made, port)).endswith(b"hello")
    stop.set()
    tier.join(10)
    assert not tier.is_alive()
