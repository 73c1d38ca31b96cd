"""The VPC of a cluster, read from the twin's cloud."""

from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from twin.cluster.base.context import ClusterSpec
from twin.cluster.gateway.cluster_network import network_of
from twin.cluster.gateway.translation.vpc import ClusterNetwork, FirewallRule
from twin.host.paths import TwinPaths
from twin.world.store import Store, Use, new_record

SPEC = ClusterSpec("p", "us-central1", "main", ("us-central1-a",), False, "1", "u")
CLUSTER = "gcp:container/cluster:Cluster"
NETWORK = "gcp:compute/network:Network"
HOST = "projects/host/global/networks/net"


class Place:
    """A cluster in a Shared VPC."""

    def __init__(self, paths: TwinPaths) -> None:
        self.paths, self.store = paths, Store(paths.cloud_db)
        self.add(NETWORK, HOST)
        cluster = "projects/p/locations/us-central1/clusters/main"
        self.add(CLUSTER, cluster, network=HOST)

    def add(self, token: str, path: str, *uses: Use, **inputs: Any) -> None:
        name = path.rpartition("/")[2]
        self.store.add(new_record(token, path, name, "p", "", inputs, {}), list(uses))

    def firewall(self, name: str, **inputs: Any) -> None:
        path = f"projects/host/global/firewalls/{name}"
        self.add("gcp:compute/firewall:Firewall", path, Use(NETWORK, HOST, blocks=True), **inputs)

    def subnet(self, name: str, region: str, **inputs: Any) -> None:
        path = f"projects/host/regions/{region}/subnetworks/{name}"
        use = Use(NETWORK, HOST, blocks=True)
        self.add("gcp:compute/subnetwork:Subnetwork", path, use, region=region, **inputs)

    def found(self) -> ClusterNetwork:
        network = network_of(self.paths, SPEC)
        assert network is not None
        return network


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(TwinPaths(tmp_path))


def test_a_network_of_another_project_is_shared(place: Place) -> None:
    assert (place.found().name, place.found().is_shared) == (HOST, True)
    assert network_of(place.paths, ClusterSpec("p", "us-east1", "b", (), False, "1", "u")) is None


def test_the_rules_for_all_machines_of_a_network_are_read(place: Place) -> None:
    tcp = [{"protocol": "tcp", "ports": ["8000", "9002-9005"]}, {"protocol": "icmp"}]
    place.firewall("open", allows=tcp, sourceRanges=["35.191.0.0/16"], priority=900)
    place.firewall("shut", denies=[{"protocol": "all"}], sourceRanges=["10.0.0.0/8"])
    out = {"destinationRanges": ["0.0.0.0/0"], "direction": "EGRESS"}
    place.firewall("out", denies=[{"protocol": "tcp", "ports": ["443"]}], priority=800, **out)
    place.firewall("some-out", denies=[{"protocol": "all"}], targetTags=["web"], **out)
    place.firewall("off", allows=tcp, disabled=True, sourceRanges=["10.0.0.0/8"])
    place.firewall("some", allows=tcp, sourceRanges=["10.0.0.0/8"], targetTags=["web"])
    assert sorted(place.found().rules, key=lambda each: each.priority) == [
        FirewallRule(900, True, (IPv4Network("35.191.0.0/16"),), ((8000, 8000), (9002, 9005))),
        FirewallRule(1000, False, (IPv4Network("10.0.0.0/8"),), ((0, 65_535),)),
    ]
    everywhere = (IPv4Network("0.0.0.0/0"),)
    assert place.found().leaving == (FirewallRule(800, False, everywhere, ((443, 443),)),)


def test_the_proxies_of_the_own_region_and_those_over_all_regions_are_known(place: Place) -> None:
    regional = {"purpose": "REGIONAL_MANAGED_PROXY", "role": "ACTIVE"}
    place.subnet("own", "us-central1", ipCidrRange="10.2.0.0/23", **regional)
    place.subnet("elsewhere", "us-east1", ipCidrRange="10.3.0.0/23", **regional)
    place.subnet("wide", "us-east1", ipCidrRange="10.4.0.0/23", purpose="GLOBAL_MANAGED_PROXY")
    place.subnet(
        "wide-active",
        "us-east1",
        ipCidrRange="10.5.0.0/23",
        purpose="GLOBAL_MANAGED_PROXY",
        role="ACTIVE",
    )
    place.subnet("nodes", "us-central1", ipCidrRange="10.0.0.0/20")
    assert sorted(place.found().proxies) == ["10.2.0.0/23", "10.5.0.0/23"]


def test_the_ranges_of_nodes_and_pods_are_those_of_the_clusters_subnet(place: Place) -> None:
    path = "projects/p/locations/us-central1/clusters/placed"
    subnet = "projects/host/regions/us-central1/subnetworks/nodes"
    ranges = [
        {"rangeName": "services", "ipCidrRange": "10.12.0.0/20"},
        {"rangeName": "pods", "ipCidrRange": "10.8.0.0/14"},
    ]
    place.subnet("nodes", "us-east1", ipCidrRange="10.16.0.0/20", secondaryIpRanges=ranges[:1])
    place.subnet("nodes", "us-central1", ipCidrRange="10.0.0.0/20", secondaryIpRanges=ranges)
    chosen = {"clusterSecondaryRangeName": "pods"}
    place.add(CLUSTER, path, network=HOST, subnetwork=subnet, ipAllocationPolicy=chosen)
    spec = ClusterSpec("p", "us-central1", "placed", (), False, "1", "u")
    found = network_of(place.paths, spec)
    assert found is not None
    assert (str(found.nodes), str(found.pods)) == ("10.0.0.0/20", "10.8.0.0/14")
    assert (str(place.found().nodes), str(place.found().pods)) == ("0.0.0.0/0", "0.0.0.0/0")


@pytest.mark.parametrize(
    ("inputs", "enforces"),
    [
        ({}, False),
        ({"datapathProvider": "ADVANCED_DATAPATH"}, True),
        ({"networkPolicy": {"enabled": True}}, True),
    ],
)
def test_dataplane_v2_enforces_network_policies(place: Place, inputs, enforces) -> None:
    cluster = "projects/p/locations/us-central1/clusters/other"
    place.add(CLUSTER, cluster, network=HOST, **inputs)
    spec = ClusterSpec("p", "us-central1", "other", (), False, "1", "u")
    found = network_of(place.paths, spec)
    assert found is not None
    assert found.enforces_policies is enforces
