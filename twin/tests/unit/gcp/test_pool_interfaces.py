"""Node pools with additional networks (rule network.interfaces)."""

from typing import Any

import pytest

from twin.providers.gcp.resources.pools.interfaces import check_interfaces, check_multi_networking
from twin.tests.unit.gcp.conftest import PROJECT, Cloud, Refused
from twin.wire.property_values import CloudError
from twin.world.store import new_record

NETWORK = "gcp:compute/network:Network"
SUBNET = "gcp:compute/subnetwork:Subnetwork"
CLUSTER = "gcp:container/cluster:Cluster"
POOL = "gcp:container/nodePool:NodePool"


def configs(count: int) -> list[dict[str, Any]]:
    return [{"network": f"n{at}", "subnetwork": f"s{at}"} for at in range(1, count + 1)]


def pool(machine: str, networks: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {
        "networkConfig": {"additionalNodeNetworkConfigs": networks, **more},
        "nodeConfig": {"machineType": machine},
    }


def refusal(inputs: dict[str, Any], **cluster: Any) -> str:
    outputs = {"enableMultiNetworking": True, "network": "projects/acme/global/networks/net"}
    with pytest.raises(CloudError) as caught:
        check_interfaces(inputs, {**outputs, **cluster}, {})
    return str(caught.value)


@pytest.mark.parametrize(
    ("machine", "most"),
    [
        ("a3-megagpu-8g", 8),
        ("a3-highgpu-8g", 4),
        ("a3-ultragpu-8g", 9),
        ("n2-standard-16", 7),
        ("n2-standard-4", 3),
    ],
)
def test_a_machine_has_only_the_interfaces_that_compute_engine_gives_it(machine: str, most: int):
    cluster = {"enableMultiNetworking": True, "network": "net"}
    check_interfaces(pool(machine, configs(most)), cluster, {})
    assert refusal(pool(machine, configs(most + 1))) == (
        f"googleapi: Error 400: Machine type {machine} has at most {most} additional interfaces, "
        f"got {most + 1}., badRequest"
    )


@pytest.mark.parametrize(
    ("inputs", "cluster", "message"),
    [
        (
            pool("a3-megagpu-8g", configs(8)),
            {"enableMultiNetworking": False},
            "require a cluster with multi-networking enabled",
        ),
        (
            pool("a3-megagpu-8g", configs(8), acceleratorNetworkProfile="auto"),
            {},
            "either an accelerator network profile or additional node networks",
        ),
        (
            pool("a3-megagpu-8g", [*configs(1), *configs(1)]),
            {},
            "must be different, got n1 twice",
        ),
        (
            pool("a3-megagpu-8g", configs(1)),
            {"network": "projects/acme/global/networks/n1"},
            "must be different, got n1 twice",
        ),
    ],
)
def test_networks_that_a_pool_cannot_have_are_refused(
    inputs: dict[str, Any], cluster: dict[str, Any], message: str
):
    assert message in refusal(inputs, **cluster)


def test_multi_networking_needs_dataplane_v2():
    check_multi_networking({"enableMultiNetworking": True, "datapathProvider": "ADVANCED_DATAPATH"})
    with pytest.raises(CloudError, match="requires GKE Dataplane V2"):
        check_multi_networking({"enableMultiNetworking": True})


def made(cloud: Cloud, network: str, subnet: str, cidr: str) -> None:
    cloud.create(NETWORK, network, {"name": network, "autoCreateSubnetworks": False})
    inputs = {"name": subnet, "network": network, "region": "us-central1", "ipCidrRange": cidr}
    cloud.create(SUBNET, subnet, inputs)


def test_a_subnet_of_another_network_or_of_none_is_refused(cloud: Cloud):
    made(cloud, "net", "nodes", "10.0.0.0/20")
    made(cloud, "n1", "s1", "192.168.0.0/24")
    made(cloud, "n2", "s2", "192.168.1.0/24")
    outputs = {
        "enableMultiNetworking": True,
        "location": "us-central1",
        "name": "c",
        "network": "net",
    }
    urn, path = cloud.urn(CLUSTER, "c"), f"projects/{PROJECT}/locations/us-central1/clusters/c"
    record = new_record(CLUSTER, path, "c", PROJECT, urn, outputs, outputs)
    cloud.world.store.add(record, [])
    own = {"cluster": "c", "location": "us-central1", "name": "p"}
    mixed = pool("a3-megagpu-8g", [{"network": "n1", "subnetwork": "s2"}])
    with pytest.raises(Refused, match="Subnetwork s2 does not belong to network n1"):
        cloud.create(POOL, "p", {**own, **mixed})
    absent = pool("a3-megagpu-8g", [{"network": "n1", "subnetwork": "s9"}])
    with pytest.raises(Refused, match="s9"):
        cloud.create(POOL, "p", {**own, **absent})
