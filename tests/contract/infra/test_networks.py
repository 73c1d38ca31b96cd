"""Stacks whose GPU nodes communicate: zones, layers and roles that RDMA can reach."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from gke_inference.catalogue.input_error import InputError
from infra.arguments.provisioning import namespace_args
from infra.plan import resolve
from infra.reading.load import parse, platform_of
from infra.stack import Platform
from infra.stack.problems import StackError

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "rdma" / "Pulumi.rdma.yaml"
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
    assert capacity.arguments[0].get("zones") == ["us-central1-b"]


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
    assert namespace_args(found, region, {"gpu": 8, "tpu": 0}).get("pod_security") == level
