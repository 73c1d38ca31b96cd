from typing import Any

import pulumi
import pulumi_gcp
import pytest

from gke_inference import Network

EAST = {
    "nodes": "10.0.0.0/20",
    "pods": "10.64.0.0/14",
    "services": "10.8.0.0/20",
    "proxies": "10.9.0.0/23",
}
WEST = {
    "nodes": "10.0.16.0/20",
    "pods": "10.68.0.0/14",
    "services": "10.8.16.0/20",
    "proxies": "10.9.2.0/23",
}
ARGS = {"network_name": "acme-prod", "regions": {"us-east5": EAST}}


def made(args: Any, opts: pulumi.ResourceOptions | None = None) -> Network:
    return Network("net", args, opts)


def outputs(network):
    return pulumi.Output.all(
        network.network_id,
        network.network_name,
        network.subnetworks,
        network.pods_range_name,
        network.services_range_name,
    )


def test_a_region_gets_nodes_proxies_a_router_and_nat(recorder):
    recorder.run(lambda: outputs(made(ARGS)))
    assert recorder.counts() == {
        "Network": 2,  # the component and the VPC
        "Subnetwork": 2,
        "Router": 1,
        "RouterNat": 1,
        "Firewall": 1,
    }


def test_the_vpc_makes_no_subnets_by_itself(recorder):
    recorder.run(lambda: outputs(made({**ARGS, "project": "acme"})))
    assert recorder.one("gcp:compute/network:Network").inputs == {
        "autoCreateSubnetworks": False,
        "name": "acme-prod",
        "project": "acme",
        "routingMode": "REGIONAL",
    }


def test_nodes_reach_google_without_the_internet_and_have_ranges_for_pods_and_services(recorder):
    recorder.run(lambda: outputs(made(ARGS)))
    assert recorder.named("net-us-east5-nodes").inputs == {
        "ipCidrRange": "10.0.0.0/20",
        "name": "acme-prod-us-east5-nodes",
        "network": "net-id",
        "privateIpGoogleAccess": True,
        "region": "us-east5",
        "secondaryIpRanges": [
            {"rangeName": "pods", "ipCidrRange": "10.64.0.0/14"},
            {"rangeName": "services", "ipCidrRange": "10.8.0.0/20"},
        ],
    }


def test_regional_gateways_have_a_subnet_for_their_proxies(recorder):
    recorder.run(lambda: outputs(made(ARGS)))
    proxy = recorder.named("net-us-east5-proxy").inputs
    assert proxy["purpose"] == "REGIONAL_MANAGED_PROXY"
    assert proxy["role"] == "ACTIVE"
    assert proxy["ipCidrRange"] == "10.9.0.0/23"


def test_only_health_checks_and_proxies_are_let_in(recorder):
    regions = {"us-east5": EAST, "us-west1": WEST}
    recorder.run(lambda: outputs(made({**ARGS, "regions": regions})))
    rule = recorder.one("gcp:compute/firewall:Firewall").inputs
    assert rule["direction"] == "INGRESS"
    assert rule["allows"] == [
        {"ports": ["8000-8001", "8080", "9002-9005", "9010-9011"], "protocol": "tcp"}
    ]
    assert rule["sourceRanges"] == [
        "35.191.0.0/16",
        "130.211.0.0/22",
        "10.9.0.0/23",
        "10.9.2.0/23",
    ]


def test_nat_takes_ports_as_it_needs_them(recorder):
    recorder.run(lambda: outputs(made(ARGS)))
    nat = recorder.one("gcp:compute/routerNat:RouterNat").inputs
    assert nat["enableDynamicPortAllocation"] is True
    assert nat["enableEndpointIndependentMapping"] is False
    assert nat["natIpAllocateOption"] == "AUTO_ONLY"
    assert nat["logConfig"] == {"enable": True, "filter": "ERRORS_ONLY"}


def test_without_nat_there_is_no_router(recorder):
    recorder.run(lambda: outputs(made({**ARGS, "nat": False})))
    assert recorder.all("gcp:compute/router:Router") == []
    assert recorder.all("gcp:compute/routerNat:RouterNat") == []


def test_outputs_name_the_subnet_of_each_region(recorder):
    regions = {"us-west1": WEST, "us-east5": EAST}
    network_id, name, subnets, pods, services = recorder.run(
        lambda: outputs(made({**ARGS, "regions": regions}))
    )
    assert (network_id, name, pods, services) == ("net-id", "acme-prod", "pods", "services")
    assert subnets == {
        "us-east5": "acme-prod-us-east5-nodes",
        "us-west1": "acme-prod-us-west1-nodes",
    }


def test_children_belong_to_the_component_and_its_provider_reaches_them(recorder):
    def program():
        provider = pulumi_gcp.Provider("elsewhere", project="other")
        return outputs(made(ARGS, pulumi.ResourceOptions(providers=[provider])))

    recorder.run(program)
    children = [seen for seen in recorder.registrations if seen.type.startswith("gcp:")]
    assert len(children) == 6
    for child in children:
        assert child.parent.endswith("gke-inference:index:Network::net")
        assert "elsewhere" in child.provider


REFUSED = {
    "no region": ({"regions": {}}, "regions", "must have at least 1 entry, got 0"),
    "a name that is too long": (
        {"network_name": "n" * 50},
        "networkName",
        "1 to 63 characters for a compute, got 65",
    ),
    "an upper-case name": ({"network_name": "Acme"}, "networkName", "lowercase letters"),
    "a range that is none": (
        {"regions": {"us-east5": {**EAST, "nodes": "10.0.0.0"}, "us-west1": WEST}},
        "regions.us-east5.nodes",
        "must be a range such as 10.0.0.0/20",
    ),
    "a range with host bits": (
        {"regions": {"us-east5": {**EAST, "nodes": "10.0.0.1/20"}}},
        "regions.us-east5.nodes",
        "must be an IPv4 CIDR range without host bits, such as 10.0.0.0/20",
    ),
    "a range that is missing": (
        {"regions": {"us-east5": {key: EAST[key] for key in EAST if key != "pods"}}},
        "regions.us-east5.pods",
        "is required: Range of the pods, /24 or larger",
    ),
    "a proxy subnet that is too small": (
        {"regions": {"us-east5": {**EAST, "proxies": "10.9.0.0/27"}}},
        "regions.us-east5.proxies",
        "must be between /8 and /26, got '10.9.0.0/27'",
    ),
    "ranges of two regions that overlap": (
        {"regions": {"us-east5": EAST, "us-west1": {**WEST, "pods": "10.66.0.0/16"}}},
        "regions.us-west1.pods",
        "must not overlap regions.us-east5.pods (10.64.0.0/14)",
    ),
    "an mtu out of range": ({"mtu": 9000}, "mtu", "must be 1300 to 8896, got 9000"),
}


@pytest.mark.parametrize(("change", "path", "words"), REFUSED.values(), ids=REFUSED)
def test_a_broken_rule_is_refused(recorder, change, path, words):
    with pytest.raises(pulumi.InputPropertyError) as refused:
        recorder.run(lambda: outputs(made({**ARGS, **change})))
    assert refused.value.property_path == path
    assert words in refused.value.reason
    assert recorder.all("gcp:compute/network:Network") == []
