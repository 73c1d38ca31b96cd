"""The network of a cluster that a stack creates, as its gateways see it."""

from ipaddress import IPv4Network
from typing import Any

from twin.cluster.base.context import ClusterSpec
from twin.cluster.gateway.cluster_network import network_of
from twin.cluster.gateway.translation.vpc import FirewallRule
from twin.tests.unit.gcp.conftest import PROJECT, Cloud
from twin.world.store import new_record

REGION = "us-central1"
SPEC = ClusterSpec(PROJECT, REGION, "main", (), False, "1", "u")


def test_the_rules_and_proxies_of_a_created_network_are_found(cloud: Cloud) -> None:
    def create(kind: str, name: str, **inputs: Any) -> str:
        return cloud.create(f"gcp:{kind}", name, {"name": name, **inputs}).id

    net = create("compute/network:Network", "net", autoCreateSubnetworks=False)
    other = create("compute/network:Network", "other", autoCreateSubnetworks=False)
    proxy = {"purpose": "REGIONAL_MANAGED_PROXY", "region": REGION, "role": "ACTIVE"}
    create("compute/subnetwork:Subnetwork", "p", ipCidrRange="10.2.0.0/23", network=net, **proxy)
    create("compute/subnetwork:Subnetwork", "q", ipCidrRange="10.9.0.0/23", network=other, **proxy)
    allows = [{"ports": ["8000", "9002-9005"], "protocol": "tcp"}]
    for name, network in (("open", net), ("elsewhere", other)):
        create(
            "compute/firewall:Firewall",
            name,
            allows=allows,
            direction="INGRESS",
            network=network,
            priority=900,
            sourceRanges=["35.191.0.0/16"],
        )
    path = f"projects/{PROJECT}/locations/{REGION}/clusters/main"
    inputs = {"datapathProvider": "ADVANCED_DATAPATH", "network": net}
    cluster = new_record("gcp:container/cluster:Cluster", path, "main", PROJECT, "", inputs, {})
    cloud.world.store.add(cluster, [])
    found = network_of(cloud.paths, SPEC)
    assert found is not None
    assert found.name == f"projects/{PROJECT}/global/networks/net"
    assert found.proxies == ("10.2.0.0/23",)
    assert found.rules == (
        FirewallRule(900, True, (IPv4Network("35.191.0.0/16"),), ((8000, 8000), (9002, 9005))),
    )
    assert (found.is_shared, found.enforces_policies) == (False, True)
