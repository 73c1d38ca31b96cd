"""Stacks whose GPU nodes communicate: zones, layers and roles that RDMA can reach."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.rungs import check_rung
from infra.deploy.region import namespace_args
from infra.estimate.quota_needs import needs
from infra.plan import resolve
from infra.reading.load import parse, platform_of
from infra.stack import Platform
from infra.stack.problems import StackError
from tests.shipped_stacks import EXAMPLES

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "rdma" / "Pulumi.rdma.yaml"
INTERNAL_FRONT = "Pulumi.internal-front.yaml"
REGION = "us-central1"
MODEL = "llama-3.1-405b"
H200: dict[str, Any] = {"accelerator": "nvidia-h200-141gb", "count": 8, "provisioning": "spot"}


def stack(**changes: Any) -> dict[str, Any]:
    found = copy.deepcopy(dict(platform_of(EXAMPLE)))
    return {**found, **changes}


def disaggregated(decode: dict[str, Any], prefill: dict[str, Any]) -> dict[str, Any]:
    found = stack(capacity={"nodes": {"rungs": [decode]}, "prompts": {"rungs": [prefill]}})
    found["models"][MODEL] |= {
        "size": {"parameters_billion": 70.6},
        "disaggregated": {"prefill": {"capacity": "prompts", "replicas": {"min": 1, "max": 1}}},
    }
    return found


def platform(found: dict[str, Any]) -> Platform:
    return parse(json.dumps(found))


def refusals(found: dict[str, Any]) -> list[str]:
    with pytest.raises(StackError) as caught:
        platform(found)
    problems: tuple[InputError, ...] = caught.value.problems
    return [str(problem) for problem in problems]


def test_a_rung_with_rdma_is_in_the_only_zone_that_has_its_machines():
    rung = {**H200, "hosts": 2}
    plan = resolve(platform(stack(capacity={"nodes": {"rungs": [rung]}})))
    (capacity,) = plan.regions[REGION].used_capacity
    assert capacity.rungs[0].zones == ("us-central1-b",)
    assert capacity.arguments[0].zones == ("us-central1-b",)


def test_rungs_with_rdma_in_different_zones_are_refused():
    rung = {**H200, "hosts": 2, "allow_unlisted_zones": True}
    rungs = [{**rung, "zones": [f"us-central1-{letter}"]} for letter in "ab"]
    assert refusals(stack(capacity={"nodes": {"rungs": rungs}})) == [
        "capacity.nodes.rungs[0].zones: must be one zone in us-central1 for all rungs: "
        "RDMA does not cross zones, got us-central1-a, us-central1-b"
    ]


def test_rdma_on_autopilot_is_refused_because_it_takes_a_capability():
    found = stack()
    settings = {k: v for k, v in found["regions"][REGION].items() if k != "system_pool"}
    found["regions"] = {REGION: {**settings, "mode": "autopilot"}}
    assert refusals(found) == [
        "capacity.nodes.rungs: must have network tcp in us-central1, which is autopilot, got rdma"
    ]


def test_roles_on_machines_with_rdma_use_it_by_default():
    zone = {"zones": ["us-central1-b"]}
    plan = resolve(platform(disaggregated({**H200, **zone}, {**H200, **zone})))
    (decode,) = plan.regions[REGION].served
    networks = {rung.network for role in decode.roles for rung in role.rungs.values()}
    assert networks == {"rdma"}


def test_roles_with_different_networks_are_refused():
    found = disaggregated(H200, {**H200, "network": "tcp"})
    assert refusals(found) == [
        f"models.{MODEL}.disaggregated.prefill.capacity: must have the network of the decode "
        "replicas, got rdma and tcp"
    ]


def test_roles_with_rdma_in_different_zones_are_refused():
    trusted = {**H200, "allow_unlisted_zones": True}
    found = disaggregated(
        {**trusted, "zones": ["us-central1-a"]}, {**trusted, "zones": ["us-central1-b"]}
    )
    assert refusals(found) == [
        f"models.{MODEL}.disaggregated.prefill.capacity: must be in the zone of the decode "
        "replicas in us-central1: RDMA does not cross zones, got us-central1-a, us-central1-b"
    ]


@pytest.mark.parametrize(("network", "level"), [("rdma", "privileged"), ("tcp", "baseline")])
def test_only_pods_with_rdma_need_a_privileged_namespace(network: str, level: str):
    rung = {**H200, "hosts": 2, "network": network}
    found = platform(stack(capacity={"nodes": {"rungs": [rung]}}))
    (region,) = resolve(found).regions.values()
    assert namespace_args(region, {"gpu": 8, "tpu": 0}, None).get("pod_security") == level


def parts_of(found: dict[str, Any], quota: str) -> dict[str, int]:
    every = {need.metric.name: need for need in needs(resolve(platform(found)))}
    return {part.who: part.amount for part in every[quota].parts} if quota in every else {}


def test_the_networks_that_gke_creates_for_rdma_count_once_for_each_machine_type():
    who = "made by GKE for RDMA in us-central1"
    assert parts_of(stack(), "NETWORKS")[who] == 2  # two rungs of one machine type in one zone
    assert parts_of(stack(), "SUBNETWORKS")[who] == 1 + 8
    zone = {"hosts": 2, "zones": ["us-central1-b"], "allow_unlisted_zones": True}
    more = {**H200, **zone, "accelerator": "nvidia-b200", "placement": "any"}
    both = stack(capacity={"nodes": {"rungs": [{**H200, **zone, "placement": "any"}, more]}})
    assert parts_of(both, "NETWORKS")[who] == 2 * 2
    tcp = stack(capacity={"nodes": {"rungs": [{**H200, "hosts": 2, "network": "tcp"}]}})
    assert who not in parts_of(tcp, "NETWORKS")


def test_the_networks_of_a_shared_vpc_count_in_its_host_project():
    found = stack()
    region = found["regions"][REGION]
    network = "projects/acme-host/global/networks/shared"
    subnet = {
        "name": f"projects/acme-host/regions/{REGION}/subnetworks/inference",
        "pods": "pods",
        "services": "services",
        "proxies": "10.2.0.0/23",
    }
    kept = {key: value for key, value in region.items() if key != "ranges"}
    found["regions"] = {REGION: {**kept, "existing": {"subnet": subnet}}}
    found["existing"] = {"network": network}
    assert parts_of(found, "NETWORKS") == {}


def placements(found: dict[str, Any]) -> list[str | None]:
    (capacity,) = resolve(platform(found)).regions[REGION].used_capacity
    resolved = [rung.placement for rung in capacity.rungs.values()]
    assert [check_rung(args).placement for args in capacity.arguments.values()] == resolved
    return resolved


RESERVED = {
    "provisioning": "reservation",
    "reservation": "h200",
    "reservation_zones": ["us-central1-b"],
}


@pytest.mark.parametrize(
    ("rung", "placement"),
    [
        ({}, "compact"),
        ({"provisioning": "flex-start"}, "compact"),
        ({"placement": "any"}, None),
        ({"network": "tcp"}, None),
        (RESERVED, None),
    ],
)
def test_nodes_that_exchange_data_by_rdma_are_close_to_each_other(rung, placement):
    whole = {**H200, "hosts": 2, **rung}
    assert placements(stack(capacity={"nodes": {"rungs": [whole]}})) == [placement]


@pytest.mark.parametrize(
    ("rung", "refusal"),
    [
        (
            {**RESERVED, "placement": "compact"},
            "placement: must be 'any' or unset with reservation, which has its own placement, "
            "got 'compact'",
        ),
        (
            {
                "accelerator": "nvidia-h100-80gb",
                "network": "tcp",
                "placement": "compact",
                "provisioning": "flex-start",
            },
            "placement: must be 'any' or unset for nvidia-h100-80gb by flex-start, got 'compact'; "
            "nvidia-b200 and nvidia-h200-141gb can be compact",
        ),
    ],
)
def test_a_placement_that_google_does_not_offer_is_refused(rung, refusal):
    whole = {**H200, "hosts": 2, **rung}
    found = stack(capacity={"nodes": {"rungs": [whole]}})
    assert refusals(found) == [f"capacity.nodes.rungs[0].{refusal}"]


def test_compact_nodes_on_tcp_are_in_one_zone():
    rung = {
        **H200,
        "allow_unlisted_zones": True,
        "hosts": 2,
        "network": "tcp",
        "placement": "compact",
        "zones": ["us-central1-a", "us-central1-b"],
    }
    assert refusals(stack(capacity={"nodes": {"rungs": [rung]}})) == [
        "capacity.nodes.rungs[0].zones: must be one zone in us-central1 for compact nodes, "
        "got us-central1-a, us-central1-b"
    ]


def test_compact_nodes_are_in_the_only_zone_of_a_cluster_that_has_their_machines():
    found = copy.deepcopy(dict(platform_of(EXAMPLES / "internal-front" / INTERNAL_FRONT)))
    found["capacity"]["small"]["rungs"][0]["placement"] = "compact"
    capacity = resolve(platform(found)).regions["europe-west4"].capacity["small"]
    assert [each.zones for each in capacity.arguments.values()] == [("europe-west4-a",), None]


@pytest.mark.parametrize(
    ("pools", "rule"),
    [
        ({"max_nodes": 97}, "96 for compact nodes of 1 rung"),
        ({"max_nodes": 94, "max_surge": 3}, "93 for compact nodes of 1 rung with max_surge 3"),
    ],
)
def test_a_pool_of_more_nodes_than_a_policy_can_have_is_refused(pools, rule):
    rung = {**H200, "hosts": 2, "placement": "compact"}
    assert refusals(stack(capacity={"nodes": {"node_pools": pools, "rungs": [rung]}})) == [
        f"capacity.nodes.node_pools.max_nodes: must be at most {rule}, got {pools['max_nodes']}"
    ]


CLOSE = {**H200, "hosts": 2, "network": "tcp", "placement": "compact", "allow_unlisted_zones": True}
H100 = {**CLOSE, "accelerator": "nvidia-h100-80gb"}
L4 = {**CLOSE, "accelerator": "nvidia-l4", "count": 8}


@pytest.mark.parametrize(
    ("capacity", "refusal"),
    [
        (
            {
                "node_pools": {"max_nodes": 49},
                "rungs": [
                    {**H200, "hosts": 2, "placement": "compact", "provisioning": how}
                    for how in ("spot", "flex-start")
                ],
            },
            ".node_pools.max_nodes: must be at most 48 for compact nodes of 2 rungs, got 49",
        ),
        (
            {"rungs": [{**CLOSE, "zones": [f"us-central1-{letter}"]} for letter in "ab"]},
            ".rungs: must have one zone in us-central1 for all compact rungs, "
            "got us-central1-a, us-central1-b",
        ),
        (
            {"rungs": [{**each, "zones": ["us-central1-a"]} for each in (H100, L4)]},
            ".rungs: must have machines of one series for all compact rungs, got a3 and g2",
        ),
    ],
)
def test_the_nodes_of_a_capacity_fit_in_one_policy(capacity, refusal):
    assert f"capacity.nodes{refusal}" in refusals(stack(capacity={"nodes": capacity}))


def test_upgrades_add_no_nodes_to_a_pool_of_flex_start():
    rung = {**H200, "hosts": 2, "placement": "compact", "provisioning": "flex-start"}
    pools = {"max_nodes": 96, "max_surge": 3}
    platform(stack(capacity={"nodes": {"node_pools": pools, "rungs": [rung]}}))


@pytest.mark.parametrize(
    ("rung", "least", "most", "needed"),
    [
        ({}, 1, 46, 97),  # an update adds a replica of 2 nodes, and an upgrade of a pool 1 node
        ({}, 2, 47, 97),  # updates of several replicas add none
        ({"provisioning": "flex-start"}, 2, 48, 98),  # flex-start nodes are not upgraded
    ],
)
def test_replicas_on_more_nodes_than_a_policy_can_have_are_refused(rung, least, most, needed):
    found = stack(capacity={"nodes": {"rungs": [{**H200, "hosts": 2, **rung}]}})
    found["models"][MODEL]["replicas"] = {"min": least, "max": most}
    platform(found)
    found["models"][MODEL]["replicas"] = {"min": least, "max": most + 1}
    assert refusals(found) == [
        f"capacity.nodes: must need at most 96 compact nodes, got {needed}, with updates and "
        "upgrades; 'placement: any' has no limit"
    ]


def test_the_chips_of_a_queue_count_as_nodes_of_the_policy():
    rung = {**H200, "placement": "compact", "zones": ["us-central1-b"]}
    nodes = {"nodes": {"rungs": [{**H200, "hosts": 2}]}, "jobs": {"rungs": [rung]}}

    def with_chips(chips: int) -> dict[str, Any]:
        teams = {"research": {"chips": {"jobs": chips}}}
        queue = {"flavors": [{"capacity": "jobs", "chips": chips}], "teams": teams}
        return stack(capacity=nodes, queues={"training": queue})

    platform(with_chips(95 * 8))
    assert refusals(with_chips(96 * 8)) == [
        "capacity.jobs: must need at most 96 compact nodes, got 97, with updates and upgrades; "
        "'placement: any' has no limit"
    ]


def test_node_pools_of_earlier_releases_keep_their_placement(deployed: Any):
    capacity = {"node_pools": {"max_nodes": 4}, "rungs": [{**H200, "hosts": 2}]}
    seen = deployed(platform(stack(capacity={"nodes": capacity})))
    pools = seen.all("gcp:container/nodePool:NodePool")
    (pool,) = [each.inputs for each in pools if each.inputs["name"] == "nodes-0"]
    assert pool["networkConfig"]["acceleratorNetworkProfile"] == "auto"
    assert "placementPolicy" not in pool  # it cannot change without a new pool
    assert seen.all("gcp:compute/resourcePolicy:ResourcePolicy") == []


def test_the_placement_policy_of_a_capacity_outlives_the_cluster_whose_nodes_use_it(deployed: Any):
    seen = deployed(platform(stack()))
    (policy,) = seen.all("gcp:compute/resourcePolicy:ResourcePolicy")
    assert policy.inputs["groupPlacementPolicy"] == {"collocation": "COLLOCATED"}
    (found,) = seen.all("kubernetes:cloud.google.com/v1:ComputeClass")
    name = policy.inputs["name"]
    assert name == "acme-rdma-nodes-placement"
    assert [each["placement"] for each in found.inputs["spec"]["priorities"]] == [
        {"policyName": name}
    ] * 2
    (cluster,) = seen.all("gke-inference:index:InferenceCluster")  # deleted after its children
    assert any(urn.endswith(f"{policy.type}::{policy.name}") for urn in cluster.dependencies)
