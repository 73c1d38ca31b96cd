"""Networks for the interfaces of accelerators, and the pools and clusters that have them."""

from typing import Any

import pulumi
import pytest

from gke_inference import AcceleratorInterfaces, AcceleratorNetworks, AcceleratorPool
from gke_inference.cluster.cluster_settings import cluster_settings

MEGA = {
    "accelerator": "nvidia-h100-mega-80gb",
    "hosts": 2,
    "network": "tcpxo",
    "provisioning": "spot",
    "zones": ["us-central1-b"],
}
POOL: dict[str, Any] = {
    "cluster": "prod",
    "location": "us-central1",
    "max_nodes": 4,
    "node_service_account": "nodes@acme.iam.gserviceaccount.com",
    "pool_name": "mega",
    "project": "acme",
    "rung": MEGA,
}


def networks(count: int) -> list[dict[str, str]]:
    return [{"network": f"n-{at}", "subnetwork": f"s-{at}"} for at in range(1, count + 1)]


def build(recorder: Any, technology: str | None = None, **regions: str) -> Any:
    args: Any = {
        "network_name": "acme-nets",
        "regions": {name.replace("_", "-"): cidr for name, cidr in regions.items()},
    }
    if technology is not None:
        args["technology"] = technology

    def program() -> Any:
        made = AcceleratorNetworks("nets", args)
        return pulumi.Output.all(made.networks, made.subnetworks)

    return recorder.run(program)


def test_regions_share_the_networks_and_have_subnets_of_one_name(recorder):
    names = [f"acme-nets-{at}" for at in range(1, 9)]
    ranges = {"us_central1": "192.168.0.0/23", "us_east5": "192.168.2.0/23"}
    assert build(recorder, **ranges) == [names, names]
    counts = recorder.counts()
    assert (counts["Network"], counts["Subnetwork"], counts["Firewall"]) == (8, 16, 8)
    first = [
        (each.inputs["region"], each.inputs["ipCidrRange"])
        for each in recorder.all("gcp:compute/subnetwork:Subnetwork")
        if each.inputs["name"] == "acme-nets-1"
    ]
    assert first == [("us-central1", "192.168.0.0/26"), ("us-east5", "192.168.2.0/26")]
    rules = [each.inputs for each in recorder.all("gcp:compute/firewall:Firewall")]
    assert rules[0]["sourceRanges"] == ["192.168.0.0/26", "192.168.2.0/26"]


def test_a3_high_has_four_networks_with_a_quarter_of_the_range_each(recorder):
    names = [f"acme-nets-{at}" for at in range(1, 5)]
    assert build(recorder, "tcpx", us_central1="192.168.0.0/24") == [names, names]
    subnets = recorder.all("gcp:compute/subnetwork:Subnetwork")
    ranges = [each.inputs["ipCidrRange"] for each in subnets]
    assert ranges == [f"192.168.0.{at * 64}/26" for at in range(4)]
    assert {each.inputs["mtu"] for each in recorder.all("gcp:compute/network:Network")} == {8244}


def test_networks_of_an_unknown_technology_are_refused(recorder):
    with pytest.raises(pulumi.InputPropertyError, match="must be one of tcpx, tcpxo, got 'rdma'"):
        build(recorder, "rdma", us_central1="192.168.0.0/24")


@pytest.mark.parametrize(
    ("cidr", "rule"),
    [
        ("192.168.0.0/27", "must be /26 or larger, got 192.168.0.0/27"),
        ("192.168.0.1/23", "must be an IPv4 range such as 192.168.0.0/20, got '192.168.0.1/23'"),
    ],
)
def test_a_range_that_cannot_be_divided_is_refused(recorder, cidr, rule):
    with pytest.raises(pulumi.InputPropertyError, match=rule):
        build(recorder, us_central1=cidr)


def test_networks_without_a_region_are_refused(recorder):
    with pytest.raises(pulumi.InputPropertyError, match="must have at least 1 entry, got 0"):
        build(recorder)


@pytest.mark.parametrize(
    ("given", "rung", "rule"),
    [
        (7, MEGA, "must be 8 networks, one for each interface of a3-megagpu-8g, got 7"),
        (0, MEGA, "must be 8 networks, one for each interface of a3-megagpu-8g, got 0"),
        (8, {**MEGA, "network": "tcp"}, "must not be set for a rung without network tcpx or tcpxo"),
    ],
)
def test_a_pool_has_a_network_for_each_interface_or_none(recorder, given, rung, rule):
    args: Any = {**POOL, "additional_networks": networks(given), "rung": rung}
    with pytest.raises(pulumi.InputPropertyError, match=rule):
        recorder.run(lambda: AcceleratorPool("pool", args))


def test_a_pool_is_on_the_networks_it_is_given(recorder):
    args: Any = {**POOL, "additional_networks": networks(8)}
    recorder.run(lambda: AcceleratorPool("pool", args).pool_name)
    config = recorder.one("gcp:container/nodePool:NodePool").inputs["networkConfig"]
    assert config["additionalNodeNetworkConfigs"] == networks(8)


def test_multi_networking_is_refused_on_autopilot():
    args: Any = {
        "cluster_name": "prod",
        "location": "us-central1",
        "mode": "autopilot",
        "multi_networking": True,
    }
    with pytest.raises(pulumi.InputPropertyError, match="must be false in Autopilot mode"):
        cluster_settings(args)


def test_interfaces_take_networks_that_are_not_created_yet(recorder):
    names = pulumi.Output.from_input([f"n-{at}" for at in range(1, 9)])
    args: Any = {"networks": names, "subnetworks": names}

    def program() -> Any:
        return AcceleratorInterfaces("interfaces", args).interface_networks

    assert recorder.run(program) == [f"tcpxo-{at}" for at in range(1, 9)]
    found = recorder.all("kubernetes:networking.gke.io/v1:GKENetworkParamSet")
    assert [each.inputs["spec"]["vpc"] for each in found] == [f"n-{at}" for at in range(1, 9)]
