"""Networks and subnets beyond a quota of the project (rule quota.networks)."""

from types import SimpleNamespace
from typing import Any

import pytest

from twin.providers.gcp.resources.pools.networks import check_network_quota
from twin.tests.unit.gcp.conftest import PROJECT, Cloud, Refused
from twin.wire.property_values import CloudError
from twin.world.capacity import World
from twin.world.network_quota import Profile, pool_profile
from twin.world.store import new_record

NETWORK = "gcp:compute/network:Network"
SUBNET = "gcp:compute/subnetwork:Subnetwork"
POOL = "gcp:container/nodePool:NodePool"
RDMA: dict[str, Any] = {
    "cluster": "serving",
    "location": "us-central1",
    "networkConfig": {"acceleratorNetworkProfile": "auto"},
    "nodeConfig": {"machineType": "a3-ultragpu-8g"},
    "nodeCount": 0,
    "nodeLocations": ["us-central1-b"],
}


def limit(cloud: Cloud, **limits: int) -> None:
    lines = "".join(f"  - {{metric: {name}, limit: {most}}}\n" for name, most in limits.items())
    cloud.paths.capacity_file.parent.mkdir(parents=True, exist_ok=True)
    cloud.paths.capacity_file.write_text(f"quota:\n{lines}")


def network(cloud: Cloud, name: str) -> Any:
    return cloud.create(NETWORK, name, {"autoCreateSubnetworks": False, "name": name})


def pool(cloud: Cloud, name: str, machine: str) -> None:
    """Check a node pool, and put it into the store if it is not refused."""
    inputs = {**RDMA, "name": name, "nodeConfig": {"machineType": machine}}
    world = World.load(cloud.paths.capacity_file)
    known: Any = SimpleNamespace(kind="container/nodePool", token=POOL)
    check_network_quota(known, inputs, PROJECT, cloud.world.store, lambda: world)
    record = new_record(POOL, name, name, PROJECT, cloud.urn(POOL, name), inputs, inputs)
    cloud.world.store.add(record, [])


def test_a_network_beyond_the_limit_is_refused(cloud: Cloud):
    limit(cloud, NETWORKS=1, SUBNETWORKS=0)
    network(cloud, "one")
    with pytest.raises(Refused, match=r"Quota 'NETWORKS' exceeded\.  Limit: 1\.0 globally\."):
        network(cloud, "two")
    subnet = {"ipCidrRange": "10.0.0.0/24", "name": "s", "network": "one", "region": "us-central1"}
    with pytest.raises(Refused, match=r"Quota 'SUBNETWORKS' exceeded\.  Limit: 0\.0 globally\."):
        cloud.create(SUBNET, "s", subnet)
    limit(cloud, NETWORKS=2)
    network(cloud, "two")


def test_the_networks_of_a_pool_for_rdma_count_once_for_each_machine_type(cloud: Cloud):
    limit(cloud, NETWORKS=2, SUBNETWORKS=8)
    with pytest.raises(CloudError, match=r"Quota 'SUBNETWORKS' exceeded\.  Limit: 8\.0 globally\."):
        pool(cloud, "a", "a3-ultragpu-8g")
    limit(cloud, NETWORKS=2, SUBNETWORKS=9)
    pool(cloud, "a", "a3-ultragpu-8g")
    pool(cloud, "b", "a3-ultragpu-8g")
    with pytest.raises(CloudError, match="Quota 'NETWORKS' exceeded"):
        pool(cloud, "c", "a4-highgpu-8g")
    with pytest.raises(Refused, match="Quota 'NETWORKS' exceeded"):
        network(cloud, "more")


def test_the_nodes_of_a_zonal_pool_share_its_networks():
    zonal: dict[str, Any] = {**RDMA, "location": "us-central1-b"}
    del zonal["nodeLocations"]
    assert pool_profile(zonal) == Profile("serving", "us-central1-b", "a3-ultragpu-8g")


def test_a_pool_for_tcpxo_needs_a_network_for_each_interface(cloud: Cloud):
    limit(cloud, NETWORKS=7)
    with pytest.raises(CloudError, match=r"Quota 'NETWORKS' exceeded\.  Limit: 7\.0 globally\."):
        pool(cloud, "mega", "a3-megagpu-8g")
    limit(cloud, NETWORKS=8)
    pool(cloud, "mega", "a3-megagpu-8g")
