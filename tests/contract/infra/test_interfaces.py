"""Stacks with GPUDirect-TCPX or -TCPXO: networks, node pools, and what rules them out."""

import copy
import json
from typing import Any

import pytest

from gke_inference.catalogue.input_error import InputError
from infra.estimate.quota_needs import needs
from infra.plan import resolve
from infra.reading.load import parse, platform_of
from infra.stack import Platform
from infra.stack.problems import StackError
from tests.shipped_stacks import EXAMPLES
from twin.providers.gcp.checks.diff import changes
from twin.providers.gcp.schema import resource

POOL = "gcp:container/nodePool:NodePool"
REGION = "us-central1"
RANGE = f"regions.{REGION}.ranges.accelerators"
FIELD = "capacity.nodes.rungs[0].network"


def stack(name: str = "tcpxo", **changes: Any) -> dict[str, Any]:
    example = EXAMPLES / name / f"Pulumi.{name}.yaml"
    return {**copy.deepcopy(dict(platform_of(example))), **changes}


def platform(found: dict[str, Any]) -> Platform:
    return parse(json.dumps(found))


def refusals(found: dict[str, Any]) -> list[str]:
    with pytest.raises(StackError) as caught:
        platform(found)
    problems: tuple[InputError, ...] = caught.value.problems
    return [str(problem) for problem in problems]


def pools(seen: Any) -> dict[str, Any]:
    return {each.name: each.inputs for each in seen.all(POOL)}


@pytest.fixture
def seen(deployed: Any) -> Any:
    return deployed(platform(stack()))


@pytest.fixture
def on_a3_high(deployed: Any) -> Any:
    return deployed(platform(stack("tcpx")))


def test_each_interface_has_a_network_with_a_subnet_and_a_rule_for_the_nodes(seen: Any):
    networks = {
        each.inputs["name"]: each.inputs for each in seen.all("gcp:compute/network:Network")
    }
    own = [name for name in networks if name.startswith("acme-tcpxo-accelerators-")]
    assert own == [f"acme-tcpxo-accelerators-{at}" for at in range(1, 9)]
    assert {networks[name]["mtu"] for name in own} == {8244}
    subnets = {
        each.inputs["name"]: each.inputs["ipCidrRange"]
        for each in seen.all("gcp:compute/subnetwork:Subnetwork")
    }
    assert [subnets[name] for name in own] == [
        f"192.168.{at // 4}.{at % 4 * 64}/26" for at in range(8)
    ]
    rules = {each.inputs["name"]: each.inputs for each in seen.all("gcp:compute/firewall:Firewall")}
    for name in own:
        rule = rules[f"{name}-internal"]
        assert rule["sourceRanges"] == [subnets[name]]
        assert [each["protocol"] for each in rule["allows"]] == ["tcp", "udp", "icmp"]


def test_the_cluster_has_multi_networking_and_its_pools_all_interfaces(seen: Any):
    (cluster,) = seen.all("gcp:container/cluster:Cluster")
    assert cluster.inputs["enableMultiNetworking"] is True
    pools = {
        each.inputs["name"]: each.inputs for each in seen.all("gcp:container/nodePool:NodePool")
    }
    for name in ("nodes-0", "nodes-1"):
        config = pools[name]["networkConfig"]
        assert "acceleratorNetworkProfile" not in config
        assert config["additionalNodeNetworkConfigs"] == [
            {
                "network": f"acme-tcpxo-accelerators-{at}",
                "subnetwork": f"acme-tcpxo-accelerators-{at}",
            }
            for at in range(1, 9)
        ]


def test_the_networks_are_in_the_cluster_before_its_pools(seen: Any):
    parameters = {
        name: found["spec"]
        for name, found in seen.objects(
            "kubernetes:networking.gke.io/v1:GKENetworkParamSet"
        ).items()
    }
    networks = {
        name: found["spec"]
        for name, found in seen.objects("kubernetes:networking.gke.io/v1:Network").items()
    }
    assert list(networks) == [f"tcpxo-{at}" for at in range(1, 9)]
    for at, name in enumerate(networks, 1):
        vpc = f"acme-tcpxo-accelerators-{at}"
        assert parameters[name] == {"deviceMode": "NetDevice", "vpc": vpc, "vpcSubnet": vpc}
        assert networks[name]["type"] == "Device"
        assert networks[name]["parametersRef"]["name"] == name
    (pool, _) = seen.all("gke-inference:index:AcceleratorPool")
    assert any("AcceleratorInterfaces" in urn for urn in pool.dependencies)


def test_agents_prepare_the_nodes_of_a3_mega_only(seen: Any):
    agents = {
        name: found["spec"]["template"]["spec"]
        for name, found in seen.objects("kubernetes:apps/v1:DaemonSet").items()
    }
    for name in ("device-injector", "nccl-tcpxo-installer"):
        nodes = agents[name]["affinity"]["nodeAffinity"]
        (term,) = nodes["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        (expression,) = term["matchExpressions"]
        assert expression["values"] == ["nvidia-h100-mega-80gb"]


def test_a3_high_has_four_of_everything(on_a3_high: Any):
    vpcs = [f"acme-tcpx-accelerators-{at}" for at in range(1, 5)]
    pools = {
        each.inputs["name"]: each.inputs["networkConfig"]
        for each in on_a3_high.all("gcp:container/nodePool:NodePool")
        if each.inputs["name"].startswith("nodes-")
    }
    attached = [{"network": name, "subnetwork": name} for name in vpcs]
    assert [each["additionalNodeNetworkConfigs"] for each in pools.values()] == [attached] * 2
    parameters = on_a3_high.all("kubernetes:networking.gke.io/v1:GKENetworkParamSet")
    found = {each.inputs["metadata"]["name"]: each.inputs["spec"]["vpc"] for each in parameters}
    assert found == {f"tcpx-{at}": vpc for at, vpc in enumerate(vpcs, 1)}


def test_agents_leave_a3_high_nodes_without_interfaces_alone(on_a3_high: Any):
    agents = {
        name: found["spec"]["template"]["spec"]
        for name, found in on_a3_high.objects("kubernetes:apps/v1:DaemonSet").items()
    }
    for name in ("device-injector", "nccl-tcpx-installer"):
        nodes = agents[name]["affinity"]["nodeAffinity"]
        (term,) = nodes["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        assert {each["key"]: each["values"] for each in term["matchExpressions"]} == {
            "cloud.google.com/gke-accelerator": ["nvidia-h100-80gb"],
            "node.kubernetes.io/instance-type": ["a3-highgpu-8g"],
        }


def test_the_namespace_is_privileged_because_pods_mount_folders_of_the_node(seen: Any):
    levels = {
        name: found["metadata"]["labels"]
        for name, found in seen.objects("kubernetes:core/v1:Namespace").items()
    }
    assert levels["models"]["pod-security.kubernetes.io/enforce"] == "privileged"


@pytest.mark.parametrize(("name", "count"), [("tcpx", 4), ("tcpxo", 8)])
def test_the_networks_count_against_the_quotas_of_the_project(name: str, count: int):
    every = {need.metric.name: need for need in needs(resolve(platform(stack(name))))}
    found = {
        name: {part.who: part.amount for part in every[name].parts}["interfaces of accelerators"]
        for name in ("FIREWALLS", "NETWORKS", "SUBNETWORKS")
    }
    assert found == {"FIREWALLS": count, "NETWORKS": count, "SUBNETWORKS": count}


def with_capacity(**changes: Any) -> dict[str, Any]:
    found = stack()
    capacity = {**found["capacity"]["nodes"], **changes}
    found["capacity"] = {"nodes": {k: v for k, v in capacity.items() if v is not None}}
    return found


def with_flex_start(*zones: str) -> dict[str, Any]:
    """Return a stack with a pool whose limit of 40 nodes is for each of the zones."""
    rung = {"accelerator": "nvidia-h100-mega-80gb", "count": 8, "hosts": 2, "network": "tcpxo"}
    rungs = [{**rung, "provisioning": "flex-start", "zones": list(zones)}]
    return with_capacity(node_pools={"max_nodes": 40}, rungs=rungs)


def with_range(cidr: str | None) -> dict[str, Any]:
    found = stack()
    ranges = {**found["regions"][REGION]["ranges"], "accelerators": cidr}
    found["regions"][REGION]["ranges"] = {k: v for k, v in ranges.items() if v is not None}
    return found


def on_autopilot() -> dict[str, Any]:
    found = stack()
    settings = {k: v for k, v in found["regions"][REGION].items() if k != "system_pool"}
    found["regions"] = {REGION: {**settings, "mode": "autopilot"}}
    return found


def on_an_existing_network() -> dict[str, Any]:
    found = stack(existing={"network": "projects/acme-host/global/networks/shared"})
    subnet = {
        "name": f"projects/acme-host/regions/{REGION}/subnetworks/inference",
        "pods": "pods",
        "services": "services",
        "proxies": "10.2.0.0/23",
    }
    settings = {k: v for k, v in found["regions"][REGION].items() if k != "ranges"}
    found["regions"] = {REGION: {**settings, "existing": {"subnet": subnet}}}
    return found


def beside_rdma() -> dict[str, Any]:
    found = stack()
    rung = {"accelerator": "nvidia-h200-141gb", "count": 8, "hosts": 2, "provisioning": "spot"}
    found["capacity"]["other"] = {"rungs": [{**rung, "zones": ["us-central1-b"]}]}
    found["models"]["other"] = {**found["models"]["llama-3.1-405b"], "capacity": "other"}
    return found


def beside_a3_high() -> dict[str, Any]:
    found = stack()
    found["capacity"]["other"] = stack("tcpx")["capacity"]["nodes"]
    return found


def of_a_queue() -> dict[str, Any]:
    found = stack()
    teams = {"research": {"chips": {"nodes": 16}}}
    found["queues"] = {
        "training": {"flavors": [{"capacity": "nodes", "chips": 16}], "teams": teams}
    }
    return found


@pytest.mark.parametrize(
    ("found", "refusal"),
    [
        (
            with_capacity(node_pools=None),
            "capacity.nodes.node_pools: is required with network tcpxo: a compute class cannot "
            "name the networks of nodes",
        ),
        (with_range(None), f"{RANGE}: is required: nodes has network tcpxo"),
        (
            with_range("192.168.0.0/26"),
            f"{RANGE}: must have room for 8 nodes in each of 8 networks, got 192.168.0.0/26, for 4",
        ),
        (
            with_flex_start("us-central1-b", "us-central1-c"),
            f"{RANGE}: must have room for 80 nodes in each of 8 networks, got 192.168.0.0/23, "
            "for 60",
        ),
        (
            with_range("192.168.0.0/27"),
            f"{RANGE}: must be between /8 and /26, got '192.168.0.0/27'",
        ),
        (
            with_range("10.16.0.0/20"),
            f"{RANGE}: must not overlap regions.{REGION}.ranges.pods (10.16.0.0/14), "
            "got '10.16.0.0/20'",
        ),
        (
            on_autopilot(),
            f"{FIELD}: must be 'tcp' in us-central1, which is autopilot, got 'tcpxo'",
        ),
        (
            on_an_existing_network(),
            f"{FIELD}: must be 'tcp' when existing.network is set: its networks belong to a new "
            "cluster, got 'tcpxo'",
        ),
        (
            beside_rdma(),
            f"{FIELD}: must be 'tcp' in us-central1, where other rungs have rdma, got 'tcpxo': "
            "two drivers would manage the interfaces of its nodes",
        ),
        (
            beside_a3_high(),
            "capacity.other.rungs[0].network: must be 'tcp' in a stack with tcpxo, whose networks "
            "all regions share, got 'tcpx'",
        ),
        (of_a_queue(), f"{FIELD}: must be 'tcp' for nodes of queues, got 'tcpxo'"),
    ],
)
def test_a_stack_whose_nodes_cannot_have_the_interfaces_is_refused(
    found: dict[str, Any], refusal: str
):
    assert refusal in refusals(found)


def test_a_range_that_no_rung_needs_is_refused():
    rung = {"accelerator": "nvidia-h100-mega-80gb", "hosts": 2, "network": "tcp"}
    found = with_capacity(rungs=[{**rung, "count": 8, "provisioning": "spot"}])
    assert refusals(found) == [
        f"{RANGE}: must be omitted: no rung in us-central1 has network tcpx or tcpxo, "
        "got '192.168.0.0/23'"
    ]


def test_a_platform_stack_cannot_promise_a_privileged_namespace():
    found = stack(layer="platform", teams={"search": {"chips": {"gpu": 32}}})
    del found["models"]
    assert any(
        "must be 'tcp' when layer is platform, got 'tcpxo': its pods need" in problem
        for problem in refusals(found)
    )


def test_pools_that_give_up_their_additional_networks_are_replaced(deployed: Any):
    """Google takes no network from a node pool; the provider makes a new pool instead."""
    known = resource(POOL)
    assert known is not None
    found = stack("tcpx")
    before = pools(deployed(platform(found)))
    del found["regions"][REGION]["ranges"]["accelerators"]
    for rung in found["capacity"]["nodes"]["rungs"]:
        rung["network"] = "tcp"
    after = pools(deployed(platform(found)))
    replaced = {
        name: [each.path for each in changes(known, old, after[name]) if each.replaces]
        for name, old in before.items()
    }
    networks = "networkConfig.additionalNodeNetworkConfigs"
    assert {name for name, paths in replaced.items() if networks in paths} == {
        f"{REGION}-nodes-0",
        f"{REGION}-nodes-1",
    }
