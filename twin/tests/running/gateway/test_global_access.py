"""Clients of an internal gateway in other regions of its network, with the real Envoy."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from twin.cluster.gateway.translation.objects import INTERNAL_CLASS
from twin.tests.running.gateway.house import House, ask
from twin.tests.unit.gateway.builders import GATEWAY_API, policy
from twin.world.nearness import CLIENT_REGION

pytestmark = pytest.mark.needs_tools

OWN, OTHER = "us-central1", "europe-west4"
GATEWAY = {"group": GATEWAY_API, "kind": "Gateway", "name": "gw"}


@pytest.fixture(name="house")
def a_house(tmp_path: Path) -> Iterator[House]:
    """An internal gateway."""
    found = House(tmp_path)
    found.region = OWN
    yield found
    found.close()


def statuses() -> dict[str, int]:
    """Return the answer to a client of each region, and to one that names none."""
    found = {region: ask(headers={CLIENT_REGION: region}).status for region in (OWN, OTHER)}
    return {**found, "": ask().status}


def test_only_global_access_lets_clients_of_another_region_in(house: House) -> None:
    house.program(gatewayClassName=INTERNAL_CLASS)
    assert statuses() == {OWN: 200, OTHER: 503, "": 200}
    everywhere = policy("GCPGatewayPolicy", "p", GATEWAY, allowGlobalAccess=True)
    house.program(everywhere, gatewayClassName=INTERNAL_CLASS)
    assert statuses() == {OWN: 200, OTHER: 200, "": 200}
