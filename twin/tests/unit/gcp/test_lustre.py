"""Managed Lustre: which instances Google accepts, and how they may change."""

from typing import Any

import pytest

from twin.tests.unit.gcp.conftest import PROJECT, Cloud, Made, Refused

NETWORK = {"autoCreateSubnetworks": False, "name": "net", "project": PROJECT}
INSTANCE = "gcp:lustre/instance:Instance"
INPUTS: dict[str, Any] = {
    "capacityGib": "9000",
    "filesystem": "shared",
    "instanceId": "lustre-us",
    "location": "us-central1-b",
    "network": f"projects/{PROJECT}/global/networks/net",
    "perUnitStorageThroughput": "1000",
    "project": PROJECT,
}


def peer(cloud: Cloud, prefix: int = 22) -> Made:
    cloud.create("gcp:compute/network:Network", "net", NETWORK)
    address = {
        "address": "10.64.0.0",
        "addressType": "INTERNAL",
        "name": "services",
        "network": INPUTS["network"],
        "prefixLength": prefix,
        "project": PROJECT,
        "purpose": "VPC_PEERING",
    }
    cloud.create("gcp:compute/globalAddress:GlobalAddress", "services", address)
    connection = {
        "network": INPUTS["network"],
        "reservedPeeringRanges": ["services"],
        "service": "servicenetworking.googleapis.com",
    }
    return cloud.create("gcp:servicenetworking/connection:Connection", "peering", connection)


def test_an_instance_has_a_mount_point_and_files_that_go_with_it(cloud: Cloud) -> None:
    peer(cloud)
    made = cloud.create(INSTANCE, "lustre", INPUTS)
    assert made.outputs["mountPoint"].endswith(".0.2@tcp:/shared")
    folder = cloud.paths.root / "lustre" / "lustre-us"
    (folder / "adapter").mkdir(parents=True)
    cloud.delete(made)
    assert not folder.exists()


def test_a_peering_is_of_the_project_of_its_network(cloud: Cloud) -> None:
    host = "acme-host"
    path = f"projects/{host}/global/networks/net"
    cloud.create("gcp:compute/network:Network", "net", {**NETWORK, "project": host})
    address = {"addressType": "INTERNAL", "name": "services", "network": path, "project": host}
    address |= {"address": "10.64.0.0", "prefixLength": 22, "purpose": "VPC_PEERING"}
    cloud.create("gcp:compute/globalAddress:GlobalAddress", "services", address)
    connection = {
        "network": path,
        "reservedPeeringRanges": ["services"],
        "service": "servicenetworking.googleapis.com",
    }
    kind = "gcp:servicenetworking/connection:Connection"
    with pytest.raises(Refused, match="GlobalAddress 'others'"):
        cloud.create(kind, "peering", {**connection, "reservedPeeringRanges": ["others"]})
    assert cloud.create(kind, "peering", connection)


def test_a_network_without_private_services_access_has_no_instance(cloud: Cloud) -> None:
    cloud.create("gcp:compute/network:Network", "net", NETWORK)
    with pytest.raises(Refused, match="network net has no private services access"):
        cloud.create(INSTANCE, "lustre", INPUTS)


def test_each_instance_takes_a_23_of_the_allocated_range(cloud: Cloud) -> None:
    peer(cloud, prefix=22)
    for name in ("one", "two"):
        cloud.create(INSTANCE, name, {**INPUTS, "instanceId": name})
    with pytest.raises(Refused, match="no /23 is left"):
        cloud.create(INSTANCE, "three", {**INPUTS, "instanceId": "three"})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"capacityGib": "10000"}, "capacityGib: must be 9000 to 1530000 in steps of 9000"),
        ({"filesystem": "shared-files"}, "filesystem: must be one to eight letters and digits"),
        ({"instanceId": "-lustre"}, "instanceId: must be 1 to 63"),
        ({"location": "us-central1"}, "location: must be a zone"),
        ({"perUnitStorageThroughput": "300"}, "perUnitStorageThroughput: must be one of 125"),
    ],
)
def test_values_that_lustre_does_not_have_are_refused(
    cloud: Cloud, changes: dict[str, Any], message: str
) -> None:
    peer(cloud)
    with pytest.raises(Refused, match=message):
        cloud.create(INSTANCE, "lustre", {**INPUTS, **changes})


def test_capacity_grows_within_its_step_and_never_shrinks(cloud: Cloud) -> None:
    peer(cloud)
    made = cloud.create(INSTANCE, "lustre", {**INPUTS, "capacityGib": "18000"})
    assert cloud.update(made, {**INPUTS, "capacityGib": "27000"})["capacityGib"] == "27000"
    for asked, message in (("9000", "cannot decrease"), ("1584000", "at most 1530000")):
        with pytest.raises(Refused, match=message):
            cloud.update(made, {**INPUTS, "capacityGib": asked})


def test_a_peering_outlives_its_instances(cloud: Cloud) -> None:
    peering = peer(cloud)
    made = cloud.create(INSTANCE, "lustre", INPUTS)
    with pytest.raises(Refused, match="still using this connection"):
        cloud.delete(peering)
    cloud.delete(made)
    cloud.delete(peering)
