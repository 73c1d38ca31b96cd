"""A client behind both load balancers: the global one, and the gateway of its region."""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from twin.front import process
from twin.front.process import FrontTier
from twin.host.paths import TwinPaths
from twin.host.ports import free_port
from twin.tests.eventually import eventually
from twin.tests.fronts import ADDRESS, REGIONS, make_front
from twin.tests.running.gateway import house
from twin.tests.running.gateway.house import House
from twin.tests.running.gateway.processors import headers_of
from twin.tests.unit.gcp.conftest import Cloud
from twin.world.nearness import CLIENT_REGION

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(180)]


@pytest.fixture
def port(gateway: House, tmp_path: Path) -> Iterator[int]:
    """Port of a global load balancer over the gateway."""
    del gateway
    paths = TwinPaths(tmp_path / "twin")
    paths.create()
    listens = free_port()
    make_front(Cloud(paths), dict.fromkeys(REGIONS, house.ADDRESS), house.PORT, listens=listens)
    try:
        FrontTier(paths).reconcile()
        yield listens
    finally:
        process.stop(paths)


def ask(port: int, source: str, forged: str) -> int:
    """Send a request from an address of this machine, and return the status of its answer."""
    connection = http.client.HTTPConnection(ADDRESS, port, timeout=20, source_address=(source, 0))
    headers = {
        "Content-Type": "application/json",
        "X-Forwarded-For": forged,
        CLIENT_REGION: REGIONS[0],
    }
    try:
        connection.request("POST", "/v1/completions", json.dumps({"model": "m"}), headers)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


def test_an_extension_of_the_gateway_has_the_client_in_the_fourth_last_place(gateway, port):
    assert eventually(lambda: ask(port, "127.0.0.9", "198.51.100.1, 198.51.100.2") == 200, 20)
    seen = headers_of(gateway.guard.first("request_headers"))["x-forwarded-for"]
    written, (client, front, between, regional) = seen.split(",")[:-4], seen.split(",")[-4:]
    assert ",".join(written) == "198.51.100.1, 198.51.100.2"
    assert (client, front, regional) == ("127.0.0.9", ADDRESS, house.ADDRESS)
    assert between.startswith("10.3.")  # of the published range
