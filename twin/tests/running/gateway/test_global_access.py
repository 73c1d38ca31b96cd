"""Clients of an internal gateway from other regions and through endpoints, with the real Envoy."""

import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest

from twin.cluster.gateway.envoy.messages import published_side
from twin.cluster.gateway.translation.objects import INTERNAL_CLASS
from twin.tests.running.gateway.house import ADDRESS, PORT, House, ask
from twin.tests.unit.gateway.builders import GATEWAY_API, policy
from twin.world.nearness import CLIENT_REGION

pytestmark = pytest.mark.needs_tools

OWN, OTHER = "us-central1", "europe-west4"
GATEWAY = {"group": GATEWAY_API, "kind": "Gateway", "name": "gw"}


@pytest.fixture(name="house", scope="module")
def a_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """An internal gateway."""
    found = House(tmp_path_factory.mktemp("gateway"))
    found.region = OWN
    yield found
    found.close()


def statuses() -> dict[str, int]:
    """Return the answer to a client of each region, and to one that names none."""
    found = {region: ask(headers={CLIENT_REGION: region}).status for region in (OWN, OTHER)}
    return {**found, "": ask().status}


def test_only_global_access_lets_clients_of_another_region_in(house: House) -> None:
    of_tls = policy("GCPGatewayPolicy", "p", GATEWAY, sslPolicy="gw")
    for policies in ([], [of_tls]):
        house.program(*policies, gatewayClassName=INTERNAL_CLASS)
        assert statuses() == {OWN: 200, OTHER: 503, "": 200}
    everywhere = policy("GCPGatewayPolicy", "p", GATEWAY, allowGlobalAccess=True)
    house.program(everywhere, gatewayClassName=INTERNAL_CLASS)
    assert statuses() == {OWN: 200, OTHER: 200, "": 200}


def test_the_published_side_takes_the_client_from_a_header_and_nothing_without_one(
    house: House,
) -> None:
    house.program(gatewayClassName=INTERNAL_CLASS)
    request = b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 13\r\n"
    request += b'Connection: close\r\n\r\n{"model":"m"}'
    header = f"PROXY TCP4 10.3.0.2 {ADDRESS} 40000 {PORT}\r\n".encode()
    assert send(published_side(ADDRESS), header + request).startswith(b"HTTP/1.1 200")
    assert house.engines.headers[-1]["x-forwarded-for"] == f"10.3.0.2,{ADDRESS}"
    assert send(published_side(ADDRESS), request) == b""
    assert send(ADDRESS, header + request).startswith(b"HTTP/1.1 400"), "no such header here"


def send(address: str, data: bytes) -> bytes:
    """Return the answer to bytes on a connection; nothing if that is reset."""
    with socket.create_connection((address, PORT), timeout=10) as plain:
        plain.sendall(data)
        with suppress(ConnectionResetError):
            return b"".join(iter(lambda: plain.recv(65536), b""))
        return b""
