"""Connections to a published gateway: who is accepted, from which address, and what ends it."""

from typing import Any

import pytest

from twin.providers.gcp.resources.identity import COMPUTE_API, project_number
from twin.providers.gcp.resources.references import ATTACHMENT
from twin.providers.gcp.resources.service_connections import settle
from twin.tests.consumers import REGION, Consumers
from twin.tests.unit.gcp.conftest import PROJECT, Cloud, Made, Refused

SHOP, BANK = "acme-shop", "acme-bank"


@pytest.fixture
def place(cloud: Cloud) -> Consumers:
    return Consumers(cloud)


def status(place: Consumers, *endpoints: Made) -> list[str]:
    """Return the status of endpoints, which must be the one that the producer sees."""
    seen = {each["endpoint"]: each["status"] for each in place.connected()}
    found: list[str] = []
    for endpoint in endpoints:
        found.append(str(place.outputs(endpoint)["pscConnectionStatus"]))
        assert seen.get(COMPUTE_API + endpoint.id, "CLOSED") == found[-1]
    return found


def test_a_listed_project_is_accepted_up_to_its_limit_and_all_others_stay_pending(
    place: Consumers,
) -> None:
    place.publish({SHOP: 1})
    first, second, other = (
        place.endpoint(SHOP, "one"),
        place.endpoint(SHOP, "two"),
        place.endpoint(BANK, "one"),
    )
    assert first.outputs["pscConnectionStatus"] == "ACCEPTED"
    assert status(place, first, second, other) == ["ACCEPTED", "PENDING", "PENDING"]
    (entry, *_) = place.connected()
    assert entry == {
        "consumerNetwork": f"{COMPUTE_API}projects/{SHOP}/global/networks/{SHOP}",
        "endpoint": COMPUTE_API + first.id,
        "natIps": ["10.3.0.2"],
        "propagatedConnectionCount": 0,
        "pscConnectionId": first.outputs["pscConnectionId"],
        "status": "ACCEPTED",
    }
    place.publish({SHOP: 2, BANK: 1})
    assert status(place, first, second, other) == ["ACCEPTED", "ACCEPTED", "ACCEPTED"]
    assert [each["natIps"] for each in place.connected()] == [
        ["10.3.0.2"],
        ["10.3.0.3"],
        ["10.3.0.4"],
    ]


def test_a_deleted_endpoint_makes_room_for_a_pending_one(place: Consumers) -> None:
    place.publish({SHOP: 1})
    first, second = place.endpoint(SHOP, "one"), place.endpoint(SHOP, "two")
    place.cloud.delete(first)
    assert status(place, second) == ["ACCEPTED"]


def test_a_lower_limit_ends_no_connection(place: Consumers) -> None:
    place.publish({SHOP: 2})
    both = place.endpoint(SHOP, "one"), place.endpoint(SHOP, "two")
    place.publish({SHOP: 1})
    assert status(place, *both) == ["ACCEPTED", "ACCEPTED"]


@pytest.mark.parametrize(
    ("reconciles", "expected", "new"),
    [(True, "PENDING", "PENDING"), (False, "ACCEPTED", "PENDING")],
)
def test_a_project_that_leaves_the_list_loses_its_connections_only_with_reconciliation(
    place: Consumers, reconciles: bool, expected: str, new: str
) -> None:
    place.publish({SHOP: 2, BANK: 1}, reconcileConnections=reconciles)
    old = place.endpoint(SHOP, "old")
    place.publish({BANK: 1}, reconcileConnections=reconciles)
    assert status(place, old, place.endpoint(SHOP, "new")) == [expected, new]


def test_a_rejected_project_is_refused_whichever_list_it_is_on_too(place: Consumers) -> None:
    place.publish({SHOP: 2}, consumerRejectLists=[SHOP])
    assert status(place, place.endpoint(SHOP, "one")) == ["REJECTED"]


def test_without_a_list_everyone_is_accepted(place: Consumers) -> None:
    place.publish({}, connectionPreference="ACCEPT_AUTOMATIC")
    assert status(place, place.endpoint(SHOP, "one"), place.endpoint(BANK, "one")) == [
        "ACCEPTED",
        "ACCEPTED",
    ]


@pytest.mark.parametrize(
    "entry",
    [
        {"projectIdOrNum": project_number(SHOP)},
        {"networkUrl": f"{COMPUTE_API}projects/{SHOP}/global/networks/{SHOP}"},
    ],
)
def test_a_list_has_numbers_of_projects_or_networks(
    place: Consumers, entry: dict[str, Any]
) -> None:
    place.publish({}, consumerAcceptLists=[{**entry, "connectionLimit": 1}])
    assert status(place, place.endpoint(SHOP, "one"), place.endpoint(BANK, "one")) == [
        "ACCEPTED",
        "PENDING",
    ]


def test_a_small_subnet_has_addresses_for_four_connections(place: Consumers) -> None:
    place.publish({SHOP: 9}, cidr="10.3.0.0/29")
    ends = [place.endpoint(SHOP, f"end-{at}") for at in range(5)]
    assert status(place, *ends) == ["ACCEPTED"] * 4 + ["NEEDS_ATTENTION"]
    place.cloud.delete(ends[1])
    assert status(place, ends[4]) == ["ACCEPTED"]
    assert [each["natIps"] for each in place.connected()] == [
        ["10.3.0.2"],
        ["10.3.0.4"],
        ["10.3.0.5"],
        ["10.3.0.3"],
    ]


def test_the_end_of_a_service_closes_its_connections_forever(place: Consumers) -> None:
    attachment = place.publish({SHOP: 1})
    endpoint = place.endpoint(SHOP, "one")
    place.cloud.delete(attachment)
    assert status(place, endpoint) == ["CLOSED"]
    place.publish({SHOP: 1})
    settle(place.cloud.world.store)
    assert status(place, endpoint) == ["CLOSED"]
    assert status(place, place.endpoint(SHOP, "again")) == ["ACCEPTED"]


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        ({"consumerRejectLists": [f"projects/{SHOP}/global/networks/n"]}, "cannot be mixed"),
        ({"consumerRejectLists": [f"p-{at}" for at in range(65)]}, "at most 64 values"),
        ({"consumerAcceptLists": [{"connectionLimit": 1}]}, "Must have one of projectIdOrNum"),
        ({"connectionPreference": "ACCEPT_ALL"}, "ACCEPT_ALL"),
    ],
)
def test_lists_that_google_rejects_are_refused(
    place: Consumers, lists: dict[str, Any], expected: str
) -> None:
    with pytest.raises(Refused, match=expected):
        place.publish({SHOP: 1}, **lists)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"loadBalancingScheme": "INTERNAL"}, "Must be empty with a service attachment"),
        ({"network": f"projects/{PROJECT}/global/networks/net"}, "must be in another VPC network"),
        (
            {
                "network": None,
                "subnetwork": f"projects/{PROJECT}/regions/{REGION}/subnetworks/published",
            },
            "must be in another VPC network",
        ),
        ({"region": "us-west1", "ipAddress": None}, "is not in region us-west1"),
        ({"allowPscGlobalAccess": True}, "has no global access"),
        ({"target": f"projects/{PROJECT}/regions/{REGION}/serviceAttachments/x"}, "was not found"),
    ],
)
def test_an_endpoint_that_cannot_reach_its_service_is_refused(
    place: Consumers, change: dict[str, Any], expected: str
) -> None:
    place.publish({SHOP: 1})
    with pytest.raises(Refused, match=expected):
        place.endpoint(SHOP, "one", **change)


def test_an_address_is_internal_and_of_one_endpoint_in_its_own_network(place: Consumers) -> None:
    place.publish({SHOP: 3})
    first = place.endpoint(SHOP, "one")
    with pytest.raises(Refused, match="is already being used by"):
        place.endpoint(SHOP, "two", ipAddress=first.inputs["ipAddress"])
    with pytest.raises(Refused, match="is in another network"):
        place.endpoint(SHOP, "two", ipAddress=place.address(BANK, "two").id)
    outside = place.create(SHOP, "compute/address:Address", "outside", region=REGION)
    with pytest.raises(Refused, match="must be an internal address in region us-central1"):
        place.endpoint(SHOP, "two", ipAddress=outside.id)


def test_an_endpoint_without_a_reserved_address_gets_one(place: Consumers) -> None:
    place.publish({SHOP: 1})
    assert place.endpoint(SHOP, "one", ipAddress=None).outputs["ipAddress"].startswith("127.32.")


def test_a_backend_counts_toward_the_limit_of_its_project(place: Consumers) -> None:
    attachment = place.publish({SHOP: 1})
    place.create(
        SHOP,
        "compute/regionNetworkEndpointGroup:RegionNetworkEndpointGroup",
        "group",
        network=place.network(SHOP),
        networkEndpointType="PRIVATE_SERVICE_CONNECT",
        pscTargetService=attachment.id,
        region=REGION,
    )
    assert status(place, place.endpoint(SHOP, "one")) == ["PENDING"]
    assert place.cloud.world.store.find(ATTACHMENT)[0].outputs["connectedEndpoints"][0][
        "status"
    ] == ("ACCEPTED")
